// SPDX-License-Identifier: Apache-2.0
/**
 * Blocks and mappings: what a thread's calls have in common.
 */
#ifndef SOSC_BLOCKS_H
#define SOSC_BLOCKS_H

#include "base/arch.h"
#include "call/cell.h"
#include "stack/walk.h"
#include "thread/thread.h"

#pragma GCC visibility push(hidden)

// What is known of a thread: it has the thread's index, and is wiped in a forked child, too.
struct sosc_block_thread {
	uint32_t tid_check; // whose it is, as in a struct sosc_thread
	uint32_t stack; // of the outermost call that is under way
	uint64_t sp; // where the return address of the innermost one lies; 0: there is none
	uint64_t ret; // what stands there
	uint64_t recorded; // a block that a call inside the outermost one has recorded, or BLOCK_NONE
	uint64_t freeing; // the block that it frees
	uint64_t last; // the unit of the newest BLOCK
	struct sosc_view view;
	union {
		uint64_t tp; // SAMPLE: its thread pointer; set last
		struct { // EXACT
			uint32_t ahead; // from its chunk to the one that it will likely have next
			uint16_t losses; // of the lead, soon after it had it
			uint16_t led; // times it has read the clock since then
		};
	};
	union { // by the mode
		struct { // EXACT: see eventclock.h
			uint64_t lead; // its number, when it had the lead last
			uint64_t counted; // its latest time,
			uint64_t counts_from; // and the one that was read, of which it counts
			uint64_t counts_until; // the one at which it reads the clock again
			uint32_t heartbeat; // of soscope, when it was read
			int32_t patience; // events until it wants the lead
		};
		struct { // SAMPLE
			uint64_t left; // bytes that it allocates until one is sampled
			uint64_t drawn; // what `left` was behind the newest block that was
			uint64_t seed; // of its random numbers
			uint64_t asked; // bytes that the call at `sp` has counted
		};
		struct sosc_sizes *sizes; // COUNT: where it counts, NULL: not yet
	};
};

enum {
	BLOCK_NONE = 1, // no block: the outermost call makes none
	BLOCK_NEAR = 1024, // bytes of stack that most allocators take until they call another
};

struct sosc_block_call { // of one of the functions
	struct sosc_cell *cell;
	struct sosc_thread *thread;
	struct sosc_block_thread *state;
	uint64_t sp; // where the return address lies
	uint64_t fp; // the caller's frame pointer, if it has one
};

static inline uint64_t sosc_returns_to(const struct sosc_block_call *call)
{
	return *(const uint64_t *)call->sp;
}

/** Have what the thread knows of its stack hold for this call. Who counts hardly ever asks. */
static inline void sosc_block_see_stack(const struct sosc_block_call *call)
{
	if (!sosc_view_has(&call->state->view, call->sp))
		sosc_view_find(&call->state->view, call->thread, call->sp);
}

/** The number of the stack of a call, 0: there was no room for it. */
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

// What a function allocated: its result, or for posix_memalign what lies at @out.
static inline uint64_t sosc_block_addr(uint64_t result, const uint64_t *out)
{
	return !out ? result : (uint32_t)result ? 0 : *out;
}

// What defines the program's malloc, where that records no calls that are under way; else NULL.
extern const struct sosc_loaded *sosc_block_allocator;
extern struct sosc_block_thread *sosc_block_threads; // by the index of a struct sosc_thread

// nested.c: pairs of a return address and how far below another call's it lies that were seen to be a call
// inside of that one: the code that makes it is the same, and so are the frames in between.
extern uint64_t sosc_block_nested[1 << NESTED_BITS];

static inline uint64_t *sosc_block_nested_at(uint64_t ret, uint64_t distance)
{
	return &sosc_block_nested[(ret ^ distance >> 3) & ((1 << NESTED_BITS) - 1)];
}

bool sosc_block_look_inside(const struct sosc_block_call *call, uint64_t near);
void sosc_block_forget_nested(const struct sosc_loaded *image);

/**
 * Whether the call is made inside of another one, which has to be under way. Where nobody can tell,
 * one that begins at most @near bytes below it is taken for such.
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

/** A call begins, or the one that was under way before goes on. */
static inline void sosc_block_set_open(struct sosc_block_thread *state, uint64_t sp, uint64_t ret)
{
	state->ret = ret;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->sp = sp;
}

/** Nothing is under way for a signal handler, as long as it is not all there. */
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

// Functions that make a block, of arguments a, b and c: the block that they free, the size of the
// new one, and where its address lies if it is not the result.
#define SOSC_BLOCK_MALLOC(ONE) ONE(malloc, 0, a, NULL, SOSC_API_MALLOC)
#define SOSC_BLOCK_OTHERS(ONE)                                                      \
	ONE(calloc, 0, sosc_block_product(a, b), NULL, SOSC_API_CALLOC)             \
	ONE(realloc, a, b, NULL, SOSC_API_REALLOC)                                  \
	ONE(reallocarray, a, sosc_block_product(b, c), NULL, SOSC_API_REALLOCARRAY) \
	ONE(posix_memalign, 0, c, (const uint64_t *)a, SOSC_API_POSIX_MEMALIGN)     \
	ONE(aligned_alloc, 0, b, NULL, SOSC_API_ALIGNED_ALLOC)                      \
	ONE(memalign, 0, b, NULL, SOSC_API_MEMALIGN)                                \
	ONE(valloc, 0, a, NULL, SOSC_API_VALLOC)                                    \
	ONE(pvalloc, 0, a, NULL, SOSC_API_PVALLOC)                                  \
	ONE(new, 0, a, NULL, SOSC_API_NEW)                                          \
	ONE(new_array, 0, a, NULL, SOSC_API_NEW_ARRAY)
#define SOSC_BLOCK_ALLOCATORS(ONE) \
	SOSC_BLOCK_MALLOC(ONE)     \
	SOSC_BLOCK_OTHERS(ONE)

// Handlers, in the assembly and where they go on: those of EXACT, and those of SAMPLE.
#define SOSC_DECLARE(name, ...)                                                                  \
	void sosc_h_block_##name(void);                                                          \
	uint64_t sosc_block_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp, \
				   struct sosc_cell *cell);
#define SOSC_DECLARE_BOTH(name, ...)                                                              \
	SOSC_DECLARE(name)                                                                        \
	void sosc_h_sample_##name(void);                                                          \
	uint64_t sosc_sample_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp, \
				    struct sosc_cell *cell);
SOSC_BLOCK_ALLOCATORS(SOSC_DECLARE_BOTH)
SOSC_DECLARE_BOTH(free)
SOSC_DECLARE(delete)
SOSC_DECLARE(munmap)
SOSC_DECLARE(brk)
SOSC_DECLARE(sbrk)
#undef SOSC_DECLARE_BOTH
#undef SOSC_DECLARE

struct sosc_mapping_call { // as the assembly saves it
	struct sosc_cell *cell;
	uint64_t fp;
	uint64_t arg[6];
	uint64_t ret; // in its place
};

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
