// SPDX-License-Identifier: Apache-2.0
// Walks over the stack of a call, from frame to frame: by the rules of the unwind tables, and by
// frame pointers where there are no tables.
//
// Code without tables may use the frame pointer register for anything, so following it is a guess.
// On the thread's own stack (struct sosc_view) a guess can only lead to stack, which stays as long
// as the thread runs on it. The bounds of another stack are not known. There, frames that were
// found by tables are stack, because their functions have not returned: words in their pages can be
// read directly, and kept. All other words are read through the kernel, again in each walk. A word
// that is not a return address ends the walk.

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
	REACH = 1 << 21, // most bytes of a frame, if the end of the stack is not known
	BEHIND = 1 << 16, // most bytes of stack that the kernel uses for a signal
	WINDOW_SIZE = 256, // bytes that are read at a time, a part of a page
	// most bytes of stack that a function of the agent uses before it calls another one
	OWN_FRAME = 512,
	// exactly this many, if it leaves the frame pointer unchanged (assembly)
	OWN_FRAME_KEEPS = 16,
};

uint64_t sosc_stack_visitor;

// ---- walking ----------------------------------------------------------------------

struct walk {
	struct sosc_memos *memos;
	struct sosc_memo *memo; // NULL if the walk is not kept
	uint32_t place; // index of the memo
	uint32_t tid; // id of the thread
	uint64_t first; // nothing below this address is read
	uint64_t outer; // as in struct sosc_stack_call
	uint64_t sure; // words below this address can be read directly
	uint64_t known; // words below this address can be read directly if tables lead there
	bool is_whole; // the stack ends at `sure`
	bool is_guessed; // reached by a frame pointer that may be wrong
	uint64_t sp; // stack pointer of the present frame
	uint64_t fp; // its frame pointer, valid if `fp_at` is 0
	uint64_t fp_at; // address where its frame pointer is stored
	uint64_t high; // end of the words that were read
	bool is_given; // `fp` is still the call's frame pointer
	bool is_lost; // the frame pointer is unknown
	bool sealed;
	uint64_t window_at; // addr of the words in `window`, 0 if empty
	uint64_t *window; // buffer for them
};

// Makes room in the memo. Returns false if there is none; then the walk is not kept.
static bool has_room(struct walk *walk, uint32_t pairs, uint32_t words)
{
	const struct sosc_memo_need need = {.pairs = pairs, .words = words};

	if (!sosc_memo_has_room(walk->memo, need))
		walk->memo = sosc_memo_make(walk->memos, walk->place, need);
	return walk->memo;
}

// Notes the word at @addr, or combines it with the word before to a pair. When a memo is checked,
// pairs are compared before words. There are no pairs if the end of the stack is not known: then
// only the comparison of earlier words proves that the next word can be read.
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

// Reads a word that may be unmapped, or may not be stack.
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

// The frame pointer is read only if it is needed to go on, because code may have anything there.
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

// Returns where a call really returns to: a trampoline of the agent stands for its caller.
static uint64_t behind_trampolines(uint64_t addr)
{
	uint64_t ret = sosc_site_returns_to(addr);

	return ret ? ret : addr;
}

// Goes on to the caller's frame, and returns in @addr the return address there.
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

// Goes on to the code that a signal has interrupted, which may be on another stack.
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
	// the handler may run on another stack the next time, and this one may be gone
	walk->memo = NULL;
	walk->first = sp;
	walk->is_whole = sosc_view_own(thread, sp, &low, &walk->sure);
	if (!walk->is_whole)
		walk->sure = 0;
	walk->known = walk->sure;
	return true;
}

// Goes on from a function of the agent to the call that it handles.
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

// Goes on to the caller, and returns its return address and rule. Returns false if there is no
// caller, or if it cannot be found.
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

// Decides what is known about a stack without a known end. If tables lead to a place and there is a
// return address, the place is stack. A walk with a guess is not kept. Words that only showed that
// there is no caller are not kept either.
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

// Stores the return addresses, from frame 0 on. Returns their number.
static uint32_t find_frames(struct walk *walk, const struct sosc_thread *thread, uint64_t ret,
			    uint64_t *frames, bool *is_cut)
{
	uint32_t count = 0, rule = sosc_rule_of(ret, false), most = sosc_stacks_most();
	uint64_t addr;
	bool goes_on;

	frames[count++] = ret;
	if (!rule) { // code outside all images, where an image may have been, or may be loaded
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

// The frames of an interpreter from which a call is made, the innermost first.
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

// Returns the memo with room for this number of frames, or NULL.
static struct sosc_memo *with_frames(struct sosc_memos *memos, struct sosc_memo *memo,
				     uint32_t place, uint32_t frames)
{
	const struct sosc_memo_need need = {memo->pairs, memo->words, frames};

	return sosc_memo_has_room(memo, need) ? memo : sosc_memo_make(memos, place, need);
}

// Returns a walk that begins at @call and is not kept so far. @window has room for WINDOW_SIZE
// bytes.
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
	// read first, because rules may change during the walk
	uint64_t key = sosc_memo_key(api, own);
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
	if (own) { // else its frames are not needed
		memo->count = (uint16_t)count;
		memo->own = (uint16_t)own->count;
		memcpy(sosc_memo_frames(memo), frames, (count + own->count) * sizeof(*frames));
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memo->key = key;
	return number;
}

// For a signal handler that has interrupted a walk that uses the memos, and for threads without
// memory for memos.
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

// Only the interpreter's frames have changed since the walk that was kept.
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
		// a signal handler may overwrite the memo meanwhile, and then the memo does not
		// match
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
	// check that no signal handler has taken it since
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

/** Return the number of the stack of a call, 0 if there was no room for it. */
uint32_t sosc_stack_walk(const struct sosc_stack_call *call, enum sosc_block_api api)
{
	if (sosc_has_language() && !call->native)
		return stack_with_own(call, api);
	return stack_of(call, NULL, api);
}

// ---- nested calls ------------------------------------------------------------------

/**
 * Return whether this call was made inside the call whose return address lies at @outer, above this
 * one. That call was made through a function of the agent, which has a frame right below @outer
 * while the call is open. The words below may be left over from other calls, so the frames from
 * here on are followed.
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
