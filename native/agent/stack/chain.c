// SPDX-License-Identifier: Apache-2.0
// Kept copies of frames that were read by system calls. Threads with similar ids share the places
// for them. A place belongs to one thread at a time. A signal handler that has interrupted its own
// thread there goes on without a place.

#include "stack/chain.h"
#include "base/memory.h"
#include "base/sys.h"

enum {
	CHAINS = 256,
	TRIED = 8, // number of places to try
	APART = 37, // distance between them: threads that start together have consecutive ids
	NEAR = 1024, // words that lie at most this many bytes from a part are read with the part
};

static struct sosc_chain *chains;

bool sosc_chains_init(void)
{
	if (!chains) {
		chains = sosc_memory_map(CHAINS * sizeof(*chains));
		if (chains)
			sosc_memory_keep(chains, CHAINS * sizeof(*chains), &chains);
	}
	return chains;
}

/** This is a forked child: places that other threads had taken will never be freed. */
void sosc_chains_forked(void)
{
	for (uint32_t i = 0; chains && i < CHAINS; i++)
		if (chains[i].busy) { // else nothing was being written there
			chains[i].tid = 0;
			chains[i].busy = 0;
		}
}

/**
 * Take a place for a thread's frames, which no other code takes meanwhile. Return NULL if all are
 * taken.
 */
struct sosc_chain *sosc_chain_take(uint32_t tid)
{
	for (uint32_t i = 0; chains && i < TRIED; i++) {
		struct sosc_chain *chain = &chains[(tid + i * APART) % CHAINS];

		if (!__atomic_exchange_n(&chain->busy, 1, __ATOMIC_ACQUIRE))
			return chain;
	}
	return NULL;
}

void sosc_chain_leave(struct sosc_chain *chain)
{
	if (chain)
		__atomic_store_n(&chain->busy, 0, __ATOMIC_RELEASE);
}

/** Read parts of memory, @size bytes in all, into one buffer. Return whether all could be read. */
bool sosc_parts_read(uint32_t tid, void *to, const struct sosc_chain_part *parts, uint32_t count,
		     uint64_t size)
{
	const struct sosc_chain_part local = {(uint64_t)to, size};

	return sosc_sys6(SYS_PROCESS_VM_READV, tid, (long)&local, 1, (long)parts, count, 0) ==
	       (long)size;
}

// Returns whether a word is near enough to a part to be read together with it. A part never extends
// into another page, which may be unmapped.
static bool is_near(const struct sosc_chain_part *part, uint64_t at)
{
	uint64_t end = part->at + part->size, page = ~(uint64_t)(SOSC_PAGE - 1);

	return !(((part->at ^ at) | (part->at ^ (at + 7)) | (part->at ^ (end - 1))) & page) &&
	       (at >= part->at ? at < end + NEAR : part->at - at < NEAR);
}

// Returns the part, among the last two, that the word is near to. Two are tried because frames
// alternate with the objects that they point to.
static struct sosc_chain_part *part_near(struct sosc_chain *chain, uint64_t at)
{
	for (uint32_t i = chain->parts; i > 0 && i + 2 > chain->parts; i--)
		if (is_near(&chain->part[i - 1], at))
			return &chain->part[i - 1];
	return NULL;
}

// Groups the words into parts of memory. Returns false if there are too many parts.
static bool find_parts(struct sosc_chain *chain)
{
	chain->parts = 0;
	chain->size = 0;
	for (uint32_t i = 0; i < chain->words; i++) {
		uint64_t at = chain->word[i].at, low, high;
		struct sosc_chain_part *part = part_near(chain, at);

		if (!part) {
			if (chain->parts == CHAIN_PARTS)
				return false;
			chain->part[chain->parts++] = (struct sosc_chain_part){at, 8};
			chain->size += 8;
			continue;
		}
		low = at < part->at ? at : part->at;
		high = part->at + part->size;
		high = at + 8 > high ? at + 8 : high;
		chain->size += high - low - part->size;
		*part = (struct sosc_chain_part){low, high - low};
	}
	return chain->words && chain->size <= CHAIN_BYTES;
}

static void find_places(struct sosc_chain *chain)
{
	for (uint32_t i = 0; i < chain->words; i++) {
		const struct sosc_chain_part *part = chain->part;
		uint64_t at = chain->word[i].at, copied = 0; // bytes of the parts before

		while (at < part->at || at + 8 > part->at + part->size)
			copied += part++->size;
		chain->word[i].at = copied + (at - part->at);
	}
}

static bool has_words(const struct sosc_chain *chain)
{
	uint64_t other = 0, value;

	for (uint32_t i = 0; i < chain->words; i++) {
		memcpy(&value, chain->copy + chain->word[i].at, sizeof(value));
		other |= value ^ chain->word[i].value;
	}
	return !other;
}

/** Return whether the kept frames are still the thread's present frames. */
bool sosc_chain_is_same(struct sosc_chain *chain, uint32_t tid, const struct sosc_chain_time *time)
{
	return chain->tid == tid && chain->time.state == time->state &&
	       chain->time.session == time->session && chain->time.ends == time->ends &&
	       sosc_parts_read(tid, chain->copy, chain->part, chain->parts, chain->size) &&
	       has_words(chain);
}

/** Keep frames, with the words by which they were found. */
void sosc_chain_keep(struct sosc_chain *chain, uint32_t tid, const struct sosc_chain_time *time,
		     const uint64_t *frames, uint32_t count)
{
	if (!chain || chain->words > CHAIN_WORDS || !find_parts(chain))
		return;
	find_places(chain);
	memcpy(chain->frames, frames, count * sizeof(*frames));
	chain->count = count;
	chain->time = *time;
	chain->tid = tid;
}

/**
 * Return the address of a copy of @size bytes at @addr, or 0 if they cannot be read. If the window
 * does not contain them, it is filled with the bytes from @low to @high, for which it must have
 * room.
 */
uint64_t sosc_window_at(struct sosc_window *window, uint32_t tid, uint64_t addr, uint64_t size,
			uint64_t low, uint64_t high)
{
	if (addr < window->low || addr + size > window->high) {
		window->low = window->high = 0;
		if (sosc_read(tid, window->copy, low, high - low) != high - low)
			return 0;
		window->low = low;
		window->high = high;
	}
	return (uint64_t)window->copy + (addr - window->low);
}
