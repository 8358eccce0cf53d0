// SPDX-License-Identifier: Apache-2.0
// Walks over the stack of a call, from frame pointer to frame pointer.
//
// Code that keeps no frame pointer may have anything in its place. So nothing is read that is not
// known to be there: the pages from the return address on, as far as they have been asked for,
// which stay as long as the thread runs on them. And what is no return address ends the walk.

#include "blocks.h"
#include "guard.h"
#include "image.h"
#include "sys.h"

enum {
	KNOWN_BITS = 12,
	PAGES = 512, // asked for at once
};

#define FACTOR 0x9e3779b97f4a7c15ull

static uint64_t known[1 << KNOWN_BITS]; // return addresses that have been looked at

// rt_sigprocmask reads the new mask before it looks at how to apply it, and this is no way to.
static bool is_there(uint64_t addr)
{
	return sosc_sys6(SYS_RT_SIGPROCMASK, -1, (long)(addr & ~7ull), 0, 8, 0, 0) == -EINVAL;
}

// Whether an instruction that calls ends at @code (Intel SDM 2, CALL): by a displacement, or by
// a register or word, which takes 2, 3, 4, 6 or 7 bytes.
static bool is_behind_call(const uint8_t *code)
{
	static const uint8_t lengths[] = {2, 3, 4, 6, 7};

	if (code[-5] == 0xe8)
		return true;
	for (uint32_t i = 0; i < sizeof(lengths); i++) {
		const uint8_t *at = code - lengths[i];

		if (at[0] == 0xff && (at[1] >> 3 & 7) == 2)
			return true;
	}
	return false;
}

static bool learn(uint64_t addr, uint64_t *place)
{
	const struct sosc_loaded *image = sosc_image_of(addr);

	if (!image || addr - image->start < 8 || !sosc_addr_executable(image, addr - 1) ||
	    !sosc_addr_executable(image, addr - 8) || !is_behind_call((const uint8_t *)addr))
		return false;
	__atomic_store_n(place, addr, __ATOMIC_RELAXED);
	return true;
}

static bool is_return_address(uint64_t addr)
{
	uint64_t *place = &known[addr * FACTOR >> (64 - KNOWN_BITS)];

	return addr && (__atomic_load_n(place, __ATOMIC_RELAXED) == addr || learn(addr, place));
}

/** A call on another stack than the thread's last one, or at a deeper place of it. */
void sosc_block_find_stack(const struct sosc_block_call *call)
{
	struct sosc_block_thread *state = call->state;
	uint64_t page = call->sp & ~(uint64_t)(SOSC_PAGE - 1);
	bool joins = page < state->low && state->low - page <= (uint64_t)PAGES * SOSC_PAGE &&
		     !sosc_is_sealed(call->thread);

	for (uint64_t at = page + SOSC_PAGE; joins && at < state->low; at += SOSC_PAGE)
		joins = is_there(at);
	state->low = page;
	if (joins)
		return;
	state->high = page + SOSC_PAGE;
	state->wall = 0;
}

// Whether everything below @end is there, too.
static bool reach(struct sosc_block_thread *state, uint64_t end)
{
	if ((state->wall && end > state->wall) || end - state->high > (uint64_t)PAGES * SOSC_PAGE)
		return false;
	while (state->high < end) {
		if (!is_there(state->high)) {
			state->wall = state->high;
			return false;
		}
		state->high += SOSC_PAGE;
	}
	return true;
}

// ---- stacks that were walked before ---------------------------------------------

// What a walk has read, so that the next call from there only has to see whether all of it is the
// same: the words lie at addresses that are known, and need not wait for each other.
struct memo {
	uint32_t busy; // a walk fills it, or was left in the middle
	uint32_t number; // of the stack
	uint32_t count; // of its frames; 0: nothing is here
	uint32_t api;
	uint64_t ret; // frame 0
	uint64_t low, high; // where the words lie that were read
	uint64_t end; // the word behind the last frame pointer, if `reads_end`
	uint64_t reads_end;
	struct link {
		uint64_t fp, ret; // a frame pointer, and the return address behind it
	} link[SOSC_BLOCK_FRAMES]; // the last one's return address is `end`
};

enum { MEMO_BITS = 5, MEMOS_SIZE = sizeof(struct memo) << MEMO_BITS };

/** Memory for what was walked, NULL: there is none. */
void *sosc_block_memos(void)
{
	void *memos = sosc_mmap(NULL, MEMOS_SIZE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sosc_mmap_failed(memos) ? NULL : memos;
}

static inline struct memo *memo_of(const struct sosc_block_call *call, uint64_t ret)
{
	uint64_t hash = (ret ^ call->fp << 8) * FACTOR;

	return (struct memo *)call->state->memos + (hash >> (64 - MEMO_BITS));
}

// A frame pointer has led where it leads now: the walk would be the same.
static inline bool is_same(const struct memo *memo, const struct sosc_block_call *call,
			   uint64_t ret, enum sosc_block_api api)
{
	const struct link *link = memo->link;
	uint64_t other = 0;

	if (memo->busy || !memo->count || memo->ret != ret || link->fp != call->fp ||
	    memo->api != (uint32_t)api)
		return false;
	if (memo->high && (memo->low <= call->sp || memo->low < call->state->low ||
			   memo->high > call->state->high))
		return false;
	for (uint32_t i = 1; i < memo->count; i++, link++) {
		const uint64_t *words = (const uint64_t *)link->fp;

		other |= (words[0] ^ link[1].fp) | (words[1] ^ link->ret);
	}
	if (memo->reads_end)
		other |= ((const uint64_t *)link->fp)[1] ^ memo->end;
	return !other;
}

// ---- walking ----------------------------------------------------------------------

static uint32_t walk(const struct sosc_block_call *call, enum sosc_block_api api, struct memo *memo)
{
	struct sosc_block_thread *state = call->state;
	uint64_t frames[SOSC_BLOCK_FRAMES], fp = call->fp, before = call->sp, end = 0;
	uint64_t head = (uint64_t)api << SOSC_STACK_API, hash = api, reads_end = 0;
	bool sealed = sosc_is_sealed(call->thread);
	uint32_t count = 0, number;

	frames[0] = sosc_returns_to(call);
	for (;;) {
		hash = (hash ^ frames[count++]) * FACTOR;
		hash ^= hash >> 29;
		if (memo)
			memo->link[count - 1].fp = fp;
		if (fp <= before || fp & 7 || fp < state->low || fp >= SOSC_ADDRESSES_END)
			break;
		if (fp + 16 > state->high && (sealed || !reach(state, fp + 16)))
			break;
		end = ((const uint64_t *)fp)[1];
		reads_end = fp + 16;
		if (!is_return_address(end))
			break;
		if (count == SOSC_BLOCK_FRAMES) {
			head |= 1ull << SOSC_STACK_CUT;
			break;
		}
		frames[count] = end;
		if (memo)
			memo->link[count - 1].ret = end;
		reads_end = 0;
		before = fp;
		fp = *(const uint64_t *)fp;
	}
	number = sosc_stack_of(frames, count, head, hash * FACTOR);
	if (memo && number) {
		memo->high = reads_end ? reads_end : count > 1 ? before + 16 : 0;
		memo->low = call->fp;
		memo->ret = frames[0];
		memo->api = (uint32_t)api;
		memo->end = end;
		memo->reads_end = reads_end;
		memo->number = number;
		memo->count = count;
	}
	return number;
}

/** The number of the stack of a call, 0: there was no room for it. */
uint32_t sosc_block_stack(const struct sosc_block_call *call, enum sosc_block_api api)
{
	uint64_t ret = sosc_returns_to(call);
	struct memo *memo;
	uint32_t number;

	if (!call->state->memos)
		return walk(call, api, NULL);
	memo = memo_of(call, ret);
	// a signal handler may make another one of it meanwhile, which is not the same then
	number = __atomic_load_n(&memo->number, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (is_same(memo, call, ret, api))
		return number;
	if (memo->busy) // by who was interrupted
		return walk(call, api, NULL);
	memo->busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memo->count = 0;
	number = walk(call, api, memo);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memo->busy = 0;
	return number;
}
