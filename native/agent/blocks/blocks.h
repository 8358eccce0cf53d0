// SPDX-License-Identifier: Apache-2.0
/** Blocks and mappings: what all calls of a thread share. */
#ifndef SOSC_BLOCKS_H
#define SOSC_BLOCKS_H

#include "base/arch.h"
#include "call/cell.h"
#include "stack/walk.h"
#include "thread/thread.h"

#pragma GCC visibility push(hidden)

// The state of a thread. It has the thread's index, and is wiped in a forked child, too.
struct sosc_block_thread {
	uint32_t tid_check; // identifies the thread, as in struct sosc_thread
	uint32_t stack; // call stack of the outermost open call
	// address of the return address of the innermost open call, or 0 if no call is open
	uint64_t sp;
	uint64_t ret; // the return address there
	// a block that was recorded by a call inside the outermost one, or BLOCK_NONE
	uint64_t recorded;
	uint64_t freeing; // the block that the outermost call frees
	uint64_t last; // unit of the newest BLOCK
	struct sosc_view view;
	union {
		uint64_t tp; // SAMPLE: thread pointer; set last
		struct { // EXACT
			// distance to the chunk that the thread will likely get next
			uint32_t ahead;
			uint16_t losses; // how often it lost the lead soon after it got it
			uint16_t led; // how often it has read the clock since then
		};
	};
	union { // depends on the mode
		struct { // EXACT: see eventclock.h
			uint64_t lead; // its number when it last had the lead
			uint64_t counted; // time of its latest event,
			uint64_t counts_from; // counted from this reading of the clock
			uint64_t counts_until; // it reads the clock again at this count
			uint32_t heartbeat; // soscope's heartbeat when the clock was read
			int32_t patience; // events until it tries to take the lead
		};
		struct { // SAMPLE
			uint64_t left; // bytes that it may allocate until a block is sampled
			uint64_t drawn; // value of `left` after the newest sampled block
			uint64_t seed; // state of its random numbers
			uint64_t asked; // bytes that the call at `sp` has counted
		};
		struct sosc_sizes *sizes; // COUNT: its array of counters, NULL if there is none yet
	};
};

enum {
	BLOCK_NONE = 1, // in `recorded`: the outermost call makes no block
	// most allocators use at most this many bytes of stack before they call another one
	BLOCK_NEAR = 1024,
};

struct sosc_block_call { // a call of one of the functions
	struct sosc_cell *cell;
	struct sosc_thread *thread;
	struct sosc_block_thread *state;
	uint64_t sp; // address of the return address
	uint64_t fp; // the caller's frame pointer, if it has one
};

static inline uint64_t sosc_returns_to(const struct sosc_block_call *call)
{
	return *(const uint64_t *)call->sp;
}

/**
 * Make the thread's view of its stack valid for this call. With COUNT this is hardly ever needed.
 */
static inline void sosc_block_see_stack(const struct sosc_block_call *call)
{
	if (!sosc_view_has(&call->state->view, call->sp))
		sosc_view_find(&call->state->view, call->thread, call->sp);
}

/** Return the number of the call's stack, or 0 if there was no room for it. */
static inline uint32_t sosc_block_stack(const struct sosc_block_call *call, enum sosc_block_api api)
{
	const struct sosc_stack_call wanted = {
		.thread = call->thread,
		.view = &call->state->view,
		.sp = call->sp,
		.fp = call->fp,
		.outer = call->state->sp,
	};

	sosc_block_see_stack(call);
	return sosc_stack_walk(&wanted, api);
}

static inline uint64_t sosc_block_go_on(const struct sosc_cell *cell, uint64_t a, uint64_t b,
					uint64_t c)
{
	uint64_t (*original)(uint64_t, uint64_t, uint64_t) =
		(void *)__atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);

	return original(a, b, c);
}

static inline uint64_t sosc_block_product(uint64_t a, uint64_t b)
{
	uint64_t all;

	return __builtin_mul_overflow(a, b, &all) ? UINT64_MAX : all;
}

// Returns the address of the new block: the result, or for posix_memalign the word at @out.
static inline uint64_t sosc_block_addr(uint64_t result, const uint64_t *out)
{
	return !out ? result : (uint32_t)result ? 0 : *out;
}

// the image that defines the program's malloc, if open calls are not tracked (SAMPLE); else NULL
extern const struct sosc_loaded *sosc_block_allocator;
extern struct sosc_block_thread *sosc_block_threads; // by the index of a struct sosc_thread

// nested.c: pairs of a return address and its distance below the return address of an open call,
// for calls that were found to be inside that call. For the same pair, the code that makes the call
// is the same, and so are the frames in between.
extern uint64_t sosc_block_nested[1 << NESTED_BITS];

static inline uint64_t *sosc_block_nested_at(uint64_t ret, uint64_t distance)
{
	return &sosc_block_nested[(ret ^ distance >> 3) & ((1 << NESTED_BITS) - 1)];
}

bool sosc_block_look_inside(const struct sosc_block_call *call, uint64_t near);
void sosc_block_forget_nested(const struct sosc_loaded *image);

/**
 * Return whether the call is made inside the open call. If that cannot be determined, a call that
 * begins at most @near bytes below the open one counts as inside.
 */
static inline bool sosc_block_is_inside(const struct sosc_block_call *call, uint64_t near)
{
	const struct sosc_block_thread *state = call->state;
	uint64_t outer = state->sp, distance = outer - call->sp, ret;

	if (!outer)
		return false;
	sosc_block_see_stack(call);
	ret = sosc_returns_to(call);
	return (distance < NESTED_FAR && sosc_view_has(&state->view, outer) &&
		*(const uint64_t *)outer == state->ret &&
		__atomic_load_n(sosc_block_nested_at(ret, distance), __ATOMIC_RELAXED) ==
			(ret ^ distance << NESTED_SHIFT)) ||
	       sosc_block_look_inside(call, near);
}

/** Make a call the open one, or return to the call that was open before. */
static inline void sosc_block_set_open(struct sosc_block_thread *state, uint64_t sp, uint64_t ret)
{
	state->ret = ret;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->sp = sp;
}

/** Let no call be open for signal handlers while the state is incomplete. */
static inline void sosc_block_set_none(struct sosc_block_thread *state)
{
	state->sp = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

bool sosc_block_call_begin(struct sosc_block_call *call);
uint32_t sosc_block_mapping_stack(const struct sosc_block_call *call, enum sosc_block_api api);
struct sosc_block *sosc_block_write(const struct sosc_block_call *call, uint32_t type,
				    uint64_t addr, uint64_t size, uint32_t stack);
struct sosc_block *sosc_block_write_at(const struct sosc_block_call *call, uint32_t type,
				       uint64_t addr, uint64_t size, uint32_t stack, uint64_t tsc);

// mappings.c
bool sosc_mapping_begin(struct sosc_block_call *call);
uint64_t sosc_mapping_go_on(const struct sosc_cell *cell, const uint64_t arg[6]);

// sample.c
bool sosc_sample_start(const struct sosc_blocks *given);
void sosc_sample_thread(struct sosc_block_thread *state, uint32_t tid);
extern uint64_t *sosc_block_marks;
extern uint8_t sosc_block_marked[1 << MARKED_BITS];

// sizes.c
void sosc_sizes_start(const struct sosc_blocks *told, struct sosc_blocks *own);
void sosc_sizes_made(const struct sosc_block_call *call, uint64_t addr, uint64_t size,
		     uint32_t api);
uint64_t sosc_sizes_freed(const struct sosc_block_call *call, uint64_t addr);
void sosc_sizes_kept(const struct sosc_block_call *call, uint64_t addr, uint64_t known);

// Rows of family.h in terms of the arguments a, b and c: the block that the function frees, the
// size of the new block, and the place of its address if that is not the result.
#define SOSC_BLOCK_ARG_0 a
#define SOSC_BLOCK_ARG_1 b
#define SOSC_BLOCK_ARG_2 c
#define SOSC_BLOCK_ARG_NONE 0
#define SOSC_BLOCK_SIZE(first, second) SOSC_BLOCK_ARG_##first
#define SOSC_BLOCK_PRODUCT(first, second) \
	sosc_block_product(SOSC_BLOCK_ARG_##first, SOSC_BLOCK_ARG_##second)
#define SOSC_BLOCK_OUT_BLOCK NULL
#define SOSC_BLOCK_OUT_BLOCK_AT ((const uint64_t *)a)
#define SOSC_BLOCK_OF_ROW(name, api, number, frees, asks, first, second, gets, operation) \
	SOSC_BLOCK_ARG_##frees, SOSC_BLOCK_##asks(first, second), SOSC_BLOCK_OUT_##gets,  \
		SOSC_API_##api

// The handlers of EXACT and SAMPLE: in assembly, and the C functions to which they go on.
#define SOSC_DECLARE(name, ...)                                                                  \
	void sosc_h_block_##name(void);                                                          \
	uint64_t sosc_block_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp, \
				   struct sosc_cell *cell);
#define SOSC_DECLARE_BOTH(name, ...)                                                              \
	SOSC_DECLARE(name)                                                                        \
	void sosc_h_sample_##name(void);                                                          \
	uint64_t sosc_sample_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp, \
				    struct sosc_cell *cell);
SOSC_FAMILY_MAKERS(SOSC_DECLARE_BOTH)
SOSC_DECLARE_BOTH(free)
SOSC_DECLARE(delete)
SOSC_DECLARE(munmap)
SOSC_DECLARE(brk)
SOSC_DECLARE(sbrk)
#undef SOSC_DECLARE_BOTH
#undef SOSC_DECLARE

struct sosc_mapping_call { // as saved by the assembly
	struct sosc_cell *cell;
	uint64_t fp;
	uint64_t arg[6];
	uint64_t ret; // the return address, in its place
};

void sosc_h_block_dlsym(void);
void sosc_h_block_mmap(void);
void sosc_h_block_mremap(void);
uint64_t sosc_block_mmap(struct sosc_mapping_call *call);
uint64_t sosc_block_mremap(struct sosc_mapping_call *call);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_block_thread) == 1 << BLOCK_THREAD_SHIFT, "layout.h");
_Static_assert(offsetof(struct sosc_block_thread, tid_check) == BLOCK_THREAD_TID, "layout.h");
_Static_assert(offsetof(struct sosc_block_thread, sp) == BLOCK_THREAD_SP, "layout.h");
_Static_assert(offsetof(struct sosc_block_thread, ret) == BLOCK_THREAD_RET, "layout.h");
_Static_assert(offsetof(struct sosc_block_thread, view.low) == BLOCK_THREAD_LOW, "layout.h");
_Static_assert(offsetof(struct sosc_block_thread, view.high) == BLOCK_THREAD_HIGH, "layout.h");
_Static_assert(offsetof(struct sosc_block_thread, tp) == BLOCK_THREAD_TP, "layout.h");
_Static_assert(offsetof(struct sosc_block_thread, asked) == BLOCK_THREAD_ASKED, "layout.h");
_Static_assert(offsetof(struct sosc_block_thread, left) == BLOCK_THREAD_LEFT, "layout.h");
_Static_assert(sizeof(struct sosc_block) == SOSC_UNIT, "stream.h");

#endif
