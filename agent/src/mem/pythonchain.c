// SPDX-License-Identifier: Apache-2.0
// What is kept of frames that were read by system calls. A thread shares the place with others whose
// ids are like its own: a place is one thread's at a time, and a handler that has interrupted its own
// thread there goes on without it.

#include "pythonchain.h"
#include "memory.h"
#include "sys.h"

enum {
	CHAINS = 256,
	NEAR = 1024, // bytes that are read along with what is read anyway
};

static struct sosc_chain *chains;

bool sosc_chains_init(void)
{
	if (!chains) {
		struct sosc_chain *map =
			sosc_mmap(NULL, CHAINS * sizeof(*map), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (!sosc_mmap_failed(map))
			chains = map;
	}
	return chains;
}

/** This is a forked child: nobody leaves what another thread has taken. */
void sosc_chains_forked(void)
{
	for (uint32_t i = 0; chains && i < CHAINS; i++)
		if (chains[i].busy) { // or nothing was written there
			chains[i].tid = 0;
			chains[i].busy = 0;
		}
}

/** The place for a thread's frames, which nobody else takes meanwhile; NULL: it is taken. */
struct sosc_chain *sosc_chain_take(uint32_t tid)
{
	struct sosc_chain *chain = chains ? &chains[tid % CHAINS] : NULL;

	return chain && !__atomic_exchange_n(&chain->busy, 1, __ATOMIC_ACQUIRE) ? chain : NULL;
}

void sosc_chain_leave(struct sosc_chain *chain)
{
	if (chain)
		__atomic_store_n(&chain->busy, 0, __ATOMIC_RELEASE);
}

// Whether a word lies so near to a part that both are read at once. No part goes on in another page,
// which may be gone.
static bool is_near(const struct sosc_chain_part *part, uint64_t at)
{
	uint64_t end = part->at + part->size, page = ~(uint64_t)(SOSC_PAGE - 1);

	return !(((part->at ^ at) | (part->at ^ (at + 7)) | (part->at ^ (end - 1))) & page) &&
	       (at >= part->at ? at < end + NEAR : part->at - at < NEAR);
}

// In which parts of memory the words lie; false: there are too many of them.
static bool find_parts(struct sosc_chain *chain)
{
	chain->parts = 0;
	chain->size = 0;
	for (uint32_t i = 0; i < chain->words; i++) {
		struct sosc_chain_part *last = chain->parts ? &chain->part[chain->parts - 1] : NULL;
		uint64_t at = chain->word[i].at, low, high;

		if (!last || !is_near(last, at)) {
			if (chain->parts == CHAIN_PARTS)
				return false;
			chain->part[chain->parts++] = (struct sosc_chain_part){at, 8};
			chain->size += 8;
			continue;
		}
		low = at < last->at ? at : last->at;
		high = last->at + last->size;
		high = at + 8 > high ? at + 8 : high;
		chain->size += high - low - last->size;
		*last = (struct sosc_chain_part){low, high - low};
	}
	return chain->words && chain->size <= CHAIN_BYTES;
}

static void find_places(struct sosc_chain *chain)
{
	const struct sosc_chain_part *part = chain->part;
	uint64_t copied = 0; // bytes of the parts in front

	for (uint32_t i = 0; i < chain->words; i++) {
		uint64_t at = chain->word[i].at;

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

/** Whether the frames that are kept there are still the thread's. */
bool sosc_chain_is_same(struct sosc_chain *chain, uint32_t tid, const struct sosc_chain_time *time)
{
	const struct sosc_chain_part local = {(uint64_t)chain->copy, chain->size};

	return chain->tid == tid && chain->time.state == time->state &&
	       chain->time.session == time->session && chain->time.ends == time->ends &&
	       sosc_sys6(SYS_PROCESS_VM_READV, tid, (long)&local, 1, (long)chain->part,
			 chain->parts, 0) == (long)chain->size &&
	       has_words(chain);
}

/** Keep frames that the words have led to. */
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
