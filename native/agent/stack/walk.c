// SPDX-License-Identifier: Apache-2.0
// Walks over the stack of a call, from frame to frame: by the rules of the unwind tables, and by frame
// pointers where there are none.
//
// Code without tables may have anything in the place of a frame pointer, which is a guess then. On the
// thread's own stack (struct sosc_view) it can lead to nothing but stack, which stays as long as the
// thread runs on it. On another one, nobody knows how far that reaches. There the frames that tables lead
// to are stack, as their functions have not returned: what stands in their pages can be read, and kept.
// All else is asked of the kernel, and anew at each walk. And what is no return address ends the walk.

#include "stack/walk.h"
#include "base/arch.h"
#include "base/memory.h"
#include "base/state.h"
#include "base/sys.h"
#include "call/site.h"
#include "ring/record.h"
#include "stack/unwindrules.h"
#include "stack/walkcache.h"
#include "thread/thread.h"

enum {
	REACH = 1 << 21, // bytes of a frame at most, if nobody knows where the stack ends
	BEHIND = 1 << 16, // bytes of stack that the kernel takes for a signal at most
	WINDOW_SIZE = 256, // bytes that are read at once: a part of a page
	OWN_FRAME = 512, // bytes of stack that a function of ours takes until it calls another one
	OWN_FRAME_KEEPS = 16, // so many, if it leaves the frame pointer as it is (assembly)
};

uint64_t sosc_stack_visitor;

// ---- walking ----------------------------------------------------------------------

struct walk {
	struct sosc_memos *memos;
	struct sosc_memo *memo; // NULL: it is not kept
	uint32_t place; // of the memo
	uint32_t tid; // of the thread
	uint64_t first; // nothing below is read
	uint64_t outer; // as in struct sosc_stack_call
	uint64_t sure; // up to here words can be read, whoever leads there
	uint64_t known; // up to here if tables do
	bool is_whole; // behind `sure` there is nothing
	bool is_guessed; // a frame pointer that may be anything has led here
	uint64_t sp; // of the frame that it has come to
	uint64_t fp; // its frame pointer, if `fp_at` is 0
	uint64_t fp_at; // where that lies
	uint64_t high; // behind what was read
	bool is_given; // `fp` is the call's
	bool is_lost; // nobody knows the frame pointer
	bool sealed;
	uint64_t window_at; // addr of the words in `window`, 0: there are none
	uint64_t *window; // room for them
};

// Room for so many of them; false: there is none, and the walk is not kept.
static bool has_room(struct walk *walk, uint32_t pairs, uint32_t words)
{
	const struct sosc_memo_need need = {.pairs = pairs, .words = words};

	if (!sosc_memo_has_room(walk->memo, need))
		walk->memo = sosc_memo_make(walk->memos, walk->place, need);
	return walk->memo;
}

// The word at @addr, or a pair of it and the one that was read before. Pairs are compared before words.
// Where the stack ends at no known place there are none: only what was compared proves that the next
// word is there.
static void note(struct walk *walk, uint64_t addr, uint64_t value)
{
	struct sosc_memo *memo = walk->memo;
	struct sosc_memo_word last = {0};

	if (!memo)
		return;
	if (memo->words)
		last = sosc_memo_words(memo)[memo->words - 1];
	if (walk->is_whole && (last.addr == addr + 8 || last.addr + 8 == addr) &&
	    memo->pairs < SOSC_BLOCK_FRAMES) {
		bool first = addr < last.addr;

		if (!has_room(walk, memo->pairs + 1u, memo->words))
			return;
		memo = walk->memo;
		memo->words--;
		memo->pair[memo->pairs++] = (struct sosc_memo_pair){first ? addr : last.addr,
								    {first ? value : last.value,
								     first ? last.value : value}};
	} else {
		if (!has_room(walk, memo->pairs, memo->words + 1u))
			return;
		memo = walk->memo;
		sosc_memo_words(memo)[memo->words++] = (struct sosc_memo_word){addr, value};
	}
	if (walk->is_whole && addr + 8 > walk->high)
		walk->high = addr + 8;
}

// Read what may not be there, or is no stack.
static bool peek(struct walk *walk, uint64_t addr, uint64_t *value)
{
	uint64_t at = addr & ~(uint64_t)(WINDOW_SIZE - 1);

	if (addr > walk->sp + REACH || walk->sealed)
		return false;
	if (walk->window_at != at) {
		walk->window_at = 0;
		if (sosc_read(walk->tid, walk->window, at, WINDOW_SIZE) != WINDOW_SIZE)
			return false;
		walk->window_at = at;
	}
	*value = walk->window[(addr - at) / 8];
	return true;
}

static bool read_word(struct walk *walk, uint64_t addr, uint64_t *value)
{
	if (addr & 7 || addr < walk->first || addr >= SOSC_ADDRESSES_END)
		return false;
	if (addr < walk->sure || (addr < walk->known && !walk->is_guessed))
		*value = *(const uint64_t *)addr;
	else if (walk->is_whole || !peek(walk, addr, value))
		return false;
	note(walk, addr, *value);
	return true;
}

// The frame pointer is only read where it leads on: code may have anything there.
static bool find_fp(struct walk *walk)
{
	if (walk->is_lost)
		return false;
	if (!walk->fp_at) {
		if (walk->is_given && walk->memo)
			walk->memo->fp_mask = UINT64_MAX;
		return true;
	}
	if (!read_word(walk, walk->fp_at, &walk->fp))
		return false;
	walk->fp_at = 0;
	walk->is_given = false;
	return true;
}

static bool find_cfa(struct walk *walk, uint32_t rule, uint64_t *cfa)
{
	uint64_t bytes = ((uint64_t)(rule >> RULE_BYTES & RULE_BYTES_MASK) - RULE_MIDDLE) * 8;

	switch (rule >> RULE_KIND) {
	case RULE_SP:
		*cfa = walk->sp + bytes;
		return true;
	case RULE_GUESS:
		walk->is_guessed = true;
		// fall through
	case RULE_FP:
		if (!find_fp(walk))
			return false;
		*cfa = walk->fp + bytes;
		return true;
	case RULE_AT_FP:
		return find_fp(walk) && read_word(walk, walk->fp + bytes, cfa);
	default:
		return false;
	}
}

// Where a call really returns to: a trampoline of ours stands for its caller.
static uint64_t behind_trampolines(uint64_t addr)
{
	uint64_t ret = sosc_site_returns_to(addr);

	return ret ? ret : addr;
}

// Go on to the caller's frame, and find where the call is that it makes.
static bool leave(struct walk *walk, uint32_t rule, uint64_t *addr)
{
	uint32_t fp = rule & RULE_FP_MASK;
	uint64_t cfa;

	if (!find_cfa(walk, rule, &cfa) || cfa <= walk->sp || !read_word(walk, cfa - 8, addr))
		return false;
	if (fp == RULE_FP_THERE)
		walk->fp_at = walk->fp;
	else if (fp == RULE_FP_LOST)
		walk->is_lost = true;
	else if (fp)
		walk->fp_at = cfa - 8ull * fp;
	walk->sp = cfa;
	*addr = behind_trampolines(*addr);
	return true;
}

// Go on to what a signal has interrupted, which may be on another stack.
static bool leave_handler(struct walk *walk, const struct sosc_thread *thread, uint64_t *addr)
{
	uint64_t frame = walk->sp, sp, low;

	if (!read_word(walk, frame + SOSC_SIGNAL_SP, &sp) ||
	    !read_word(walk, frame + SOSC_SIGNAL_FP, &walk->fp) ||
	    !read_word(walk, frame + SOSC_SIGNAL_ADDR, addr))
		return false;
	walk->fp_at = 0;
	walk->is_given = walk->is_lost = false;
	walk->sp = sp;
	if (sp > frame && sp - frame < BEHIND)
		return true;
	walk->memo = NULL; // the handler may have another stack the next time, and this one be gone
	walk->first = sp;
	walk->is_whole = sosc_view_own(thread, sp, &low, &walk->sure);
	if (!walk->is_whole)
		walk->sure = 0;
	walk->known = walk->sure;
	return true;
}

// Go on from a function of ours to the call that it has seen.
static bool leave_ours(struct walk *walk, uint64_t *addr)
{
	uint64_t bytes = walk->outer - (walk->sp - 8);

	if (!sosc_is_ours(*addr) || !walk->outer || bytes > OWN_FRAME)
		return true;
	if (!read_word(walk, walk->outer, addr))
		return false;
	walk->is_lost |= bytes != OWN_FRAME_KEEPS;
	walk->sp = walk->outer + 8;
	*addr = behind_trampolines(*addr);
	return true;
}

// The caller's return address and its rule; false: there is no caller, or nobody can tell.
static bool go_on(struct walk *walk, const struct sosc_thread *thread, uint32_t *rule,
		  uint64_t *addr)
{
	if (!leave(walk, *rule, addr) || !leave_ours(walk, addr))
		return false;
	*rule = sosc_rule_of(*addr, walk->is_guessed);
	if (*rule >> RULE_KIND == RULE_SIGNAL) {
		if (!leave_handler(walk, thread, addr))
			return false;
		*rule = sosc_rule_interrupted((*addr)++, walk->is_guessed);
	}
	return *rule;
}

// A stack without a known end: what tables lead to is stack if a return address stands there. A guess is
// not kept, and neither is what has only shown that there is no caller.
static void judge(struct walk *walk, bool has_caller, uint16_t words_before)
{
	uint64_t end = ((walk->sp - 8) | (SOSC_PAGE - 1)) + 1;

	if (walk->is_whole)
		return;
	if (!has_caller) {
		if (walk->memo)
			walk->memo->words = words_before;
	} else if (walk->is_guessed) {
		walk->memo = NULL;
	} else if (end > walk->known) {
		walk->known = end;
	}
}

// The return addresses from frame 0 on; how many.
static uint32_t find_frames(struct walk *walk, const struct sosc_thread *thread, uint64_t ret,
			    uint64_t *frames, bool *is_cut)
{
	uint32_t count = 0, rule = sosc_rule_of(ret, false), most = sosc_stacks_most();
	uint64_t addr;
	bool goes_on;

	frames[count++] = ret;
	if (!rule) { // code that no image has, where one may have been, or come
		rule = RULE_POINTER;
		frames[0] = sosc_with_image(ret);
	}
	do {
		uint16_t words = walk->memo ? walk->memo->words : 0;

		goes_on = go_on(walk, thread, &rule, &addr);
		judge(walk, goes_on, words);
		*is_cut = goes_on && count == most;
		if (goes_on && !*is_cut)
			frames[count++] = addr;
	} while (goes_on && !*is_cut);
	return count;
}

// The frames of an interpreter that a call comes from, the innermost first.
struct own {
	uint32_t count;
	uint64_t frames[SOSC_BLOCK_FRAMES];
};

static uint32_t number_of(const uint64_t *frames, uint32_t count, bool is_cut,
			  enum sosc_block_api api)
{
	uint64_t head = (uint64_t)api << SOSC_STACK_API, hash = api;

	if (is_cut)
		head |= 1ull << SOSC_STACK_CUT;
	for (uint32_t i = 0; i < count; i++) {
		hash = (hash ^ frames[i]) * MEMO_FACTOR;
		hash ^= hash >> 29;
	}
	return sosc_stack_of(frames, count, head, hash * MEMO_FACTOR);
}

static uint32_t number_with(uint64_t *frames, uint32_t count, bool is_cut, const struct own *own,
			    enum sosc_block_api api)
{
	for (uint32_t i = 0; own && i < own->count; i++)
		frames[count++] = own->frames[i];
	return number_of(frames, count, is_cut || (own && own->count == sosc_stacks_most()), api);
}

// The memo, with room for so many frames; NULL: there is none.
static struct sosc_memo *with_frames(struct sosc_memos *memos, struct sosc_memo *memo,
				     uint32_t place, uint32_t frames)
{
	const struct sosc_memo_need need = {memo->pairs, memo->words, frames};

	return sosc_memo_has_room(memo, need) ? memo : sosc_memo_make(memos, place, need);
}

// A walk that begins at @call, and is not kept so far. @window has room for WINDOW_SIZE bytes.
static inline struct walk walk_from(const struct sosc_stack_call *call, uint64_t *window)
{
	return (struct walk){
		.window = window,
		.tid = call->thread->tid,
		.first = call->sp,
		.outer = call->outer,
		.sure = call->view->high,
		.known = call->view->high,
		.is_whole = call->view->is_whole,
		.sp = call->sp + 8,
		.fp = call->fp,
		.is_given = true,
		.sealed = sosc_is_sealed(call->thread),
	};
}

static uint32_t walk(const struct sosc_stack_call *call, uint64_t ret, struct sosc_memo *memo,
		     uint32_t place, const struct own *own, enum sosc_block_api api)
{
	uint64_t frames[MEMO_FRAMES], window[WINDOW_SIZE / 8];
	struct walk walk = walk_from(call, window);
	bool is_cut = false;
	uint64_t key = sosc_memo_key(api, own); // a rule that changes meanwhile may not be this one
	uint32_t count, number;

	walk.memos = call->view->memos;
	walk.memo = memo;
	walk.place = place;
	count = find_frames(&walk, call->thread, behind_trampolines(ret), frames, &is_cut);
	if (sosc_images_told_apart)
		for (uint32_t i = 0; i < count; i++)
			frames[i] = sosc_with_image(frames[i]);
	number = number_with(frames, count, is_cut, own, api);
	memo = walk.memo;
	if (memo && number && own)
		memo = with_frames(walk.memos, memo, place, count + own->count);
	if (!memo || !number)
		return number;
	memo->high = walk.high;
	memo->ret = ret;
	memo->sp = call->sp;
	memo->fp = call->fp;
	memo->is_cut = is_cut;
	memo->number = number;
	memo->count = 0;
	memo->own = 0;
	if (own) { // else nobody asks for its frames
		memo->count = (uint16_t)count;
		memo->own = (uint16_t)own->count;
		memcpy(sosc_memo_frames(memo), frames, (count + own->count) * sizeof(*frames));
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memo->key = key;
	return number;
}

// Who was interrupted in the middle has the memos, or there is no memory for any.
static __attribute__((noinline)) uint32_t walk_alone(const struct sosc_stack_call *call,
						     uint64_t ret, const struct own *own,
						     enum sosc_block_api api)
{
	return walk(call, ret, NULL, 0, own, api);
}

static inline bool has_own(struct sosc_memo *memo, const struct own *own)
{
	const uint64_t *frames;
	uint64_t other = 0;

	if (memo->own != (own ? own->count : 0))
		return false;
	frames = sosc_memo_frames(memo) + memo->count;
	for (uint32_t i = 0; i < memo->own; i++)
		other |= frames[i] ^ own->frames[i];
	return !other;
}

// The interpreter alone has gone on.
static uint32_t change_own(const struct sosc_stack_call *call, struct sosc_memo *memo, uint64_t ret,
			   uint32_t place, const struct own *own, enum sosc_block_api api)
{
	uint64_t key = memo->key;
	uint32_t number;

	memo->key = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memo = with_frames(call->view->memos, memo, place, memo->count + own->count);
	if (!memo)
		return walk_alone(call, ret, own, api);
	memo->own = (uint16_t)own->count;
	number = number_with(sosc_memo_frames(memo), memo->count, memo->is_cut, own, api);
	memo->number = number;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memo->key = number ? key : 0;
	return number;
}

static uint32_t stack_of(const struct sosc_stack_call *call, const struct own *own,
			 enum sosc_block_api api)
{
	uint64_t ret = *(const uint64_t *)call->sp, key = sosc_memo_key(api, own);
	uint32_t number = 0, place = sosc_memo_place(ret, call->sp);
	struct sosc_memos *memos = call->view->memos;
	bool is_walked = false;
	struct sosc_memo *memo;

	if (!memos)
		return walk_alone(call, ret, own, api);
	memo = memos->of[place];
	if (memo) {
		// a signal handler may make another one of it meanwhile, which is not the same then
		number = __atomic_load_n(&memo->number, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		is_walked = sosc_memo_is_same(memo, ret, call->sp, call->fp, call->view->high, key);
		if (is_walked && has_own(memo, own))
			return number;
	}
	if (memos->busy)
		return walk_alone(call, ret, own, api);
	memos->busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	// no handler has taken it since
	is_walked = is_walked && memo == memos->of[place] && memo->key == key &&
		    memo->number == number;
	if (is_walked) {
		number = change_own(call, memo, ret, place, own, api);
	} else {
		memo = sosc_memo_make(memos, place, (struct sosc_memo_need){0});
		if (memo) {
			memo->pairs = memo->words = memo->count = 0;
			memo->fp_mask = 0;
		}
		number = walk(call, ret, memo, place, own, api);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memos->busy = 0;
	return number;
}

static __attribute__((noinline)) uint32_t stack_with_own(const struct sosc_stack_call *call,
							 enum sosc_block_api api)
{
	const uint64_t visited = SOSC_FRAME_SOSCOPE;
	uint32_t most = sosc_stacks_most();
	struct own own;

	if (__atomic_load_n(&sosc_stack_visitor, __ATOMIC_RELAXED) == sosc_thread_pointer())
		return number_of(&visited, 1, false, api);
	own.count = 0;
	for (uint32_t kind = 0; kind < SOSC_LANGUAGE_KINDS && !own.count; kind++)
		if (__atomic_load_n(&sosc_languages[kind].is_there, __ATOMIC_RELAXED))
			own.count = sosc_languages[kind].stack(own.frames, most, call->thread);
	return stack_of(call, &own, api);
}

/** The number of the stack of a call, 0: there was no room for it. */
uint32_t sosc_stack_walk(const struct sosc_stack_call *call, enum sosc_block_api api)
{
	if (sosc_has_language() && !call->native)
		return stack_with_own(call, api);
	return stack_of(call, NULL, api);
}

// ---- calls inside of each other ---------------------------------------------------

/**
 * Whether the call whose return address lies at @outer, above this one, has led to this one. It was
 * made through a function of ours, which has a frame right below @outer as long as it is under way.
 * The words below may be anybody's that were left there, so the frames from here on are followed.
 */
enum sosc_nesting sosc_stack_nesting(const struct sosc_stack_call *call, uint64_t outer)
{
	uint64_t window[WINDOW_SIZE / 8];
	struct walk walk = walk_from(call, window);
	uint64_t addr = behind_trampolines(*(const uint64_t *)call->sp), cfa;

	while (!sosc_is_ours(addr)) {
		uint32_t rule = sosc_rule_of(addr, walk.is_guessed);

		if (rule >> RULE_KIND == RULE_SIGNAL)
			return NESTING_APART;
		if (!rule || !find_cfa(&walk, rule, &cfa) || cfa <= walk.sp)
			return NESTING_UNKNOWN;
		if (cfa > outer)
			return walk.is_guessed ? NESTING_UNKNOWN : NESTING_OVER;
		if (!leave(&walk, rule, &addr))
			return NESTING_UNKNOWN;
	}
	return outer - (walk.sp - 8) <= OWN_FRAME ? NESTING_INSIDE : NESTING_APART;
}
