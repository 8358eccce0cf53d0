// SPDX-License-Identifier: Apache-2.0
// Blocks and mappings: a record when one comes, with the stack of the call, and one when it goes.
//
// Each function is replaced by one that calls it, and so sees its result: nothing returns through
// a trampoline, and nothing has to be kept between two records. A block's end is recorded before
// the function is called, its beginning afterwards: whatever thread gets the memory next, its
// record is the later one.
//
// Allocators call each other: operator new calls malloc. The call that is there first says which
// function the program called, and from where; the innermost one that is seen records the block.

#include "blocks.h"
#include "clock.h"
#include "guard.h"
#include "handler.h"
#include "image.h"
#include "instrument.h"
#include "pythonstack.h"
#include "ring.h"
#include "slot.h"
#include "sys.h"

const struct sosc_loaded *sosc_block_allocator;
struct sosc_block_thread *sosc_block_threads;
static uint32_t mode; // enum sosc_block_mode
static uint32_t *thread_count; // that have recorded, wiped in a forked child as they are

static struct sosc_thread *slow(struct sosc_cell *cell)
{
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_block_thread *state;

	if (!thread) {
		if (sosc_quiet)
			__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
		else
			__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_THREADS], 1,
					   __ATOMIC_RELAXED);
		return NULL;
	}
	state = &sosc_block_threads[thread - sosc_threads];
	if (state->tid != thread->tid) {
		void *memos = state->memos;

		memset(state, 0, sizeof(*state));
		state->memos = memos || sosc_is_sealed(thread) ? memos : sosc_block_memos();
		state->tid = thread->tid;
		if (mode == SOSC_BLOCKS_SAMPLE)
			sosc_sample_thread(state, thread->tid);
		__atomic_fetch_add(thread_count, 1, __ATOMIC_SEQ_CST);
	}
	return thread;
}

// As FIND_THREAD in assembly.
static inline bool begin(struct sosc_block_call *call)
{
	uint64_t tp = sosc_thread_pointer();
	uint32_t at = (uint32_t)(tp >> 12) * THREAD_FACTOR >> (32 - THREAD_BITS);
	struct sosc_thread *thread = &sosc_threads[at];

	if (thread->key != tp || thread->tid_check != sosc_thread_word(sosc_tid_offset))
		thread = slow(call->cell);
	call->thread = thread;
	if (!thread)
		return false;
	call->state = &sosc_block_threads[thread - sosc_threads];
	if (call->sp - call->state->low >= call->state->high - call->state->low)
		sosc_block_find_stack(call);
	return true;
}

bool sosc_block_call_begin(struct sosc_block_call *call)
{
	return begin(call);
}

/**
 * Whether another call is under way, whose stack begins at most @near bytes above this one. One
 * that a signal handler has left by siglongjmp is not: something else stands there by now.
 */
bool sosc_block_is_inside(const struct sosc_block_call *call, uint64_t near)
{
	const struct sosc_block_thread *state = call->state;

	return state->sp - call->sp - 1 < near && state->sp < state->high &&
	       *(const uint64_t *)state->sp == state->ret;
}

// ---- records -----------------------------------------------------------------

static inline bool has_room(uint64_t pos)
{
	return (((uint32_t)pos - CHUNK_FIRST) & CHUNK_MASK) < CHUNK_LIMIT - CHUNK_FIRST;
}

static uint64_t reserve_slowly(const struct sosc_block_call *call)
{
	uint64_t unit = sosc_ring_reserve(call->thread, SOSC_UNIT, SOSC_LOSS_ENTRY);

	if (!unit && sosc_quiet)
		__atomic_store_n(&call->cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
	return unit;
}

// All of it is known before there is room: who is forked by a signal handler in between writes
// the same as its parent.
static inline struct sosc_block *fill(const struct sosc_block_call *call, uint64_t unit,
				      uint32_t type, const struct sosc_block *said)
{
	struct sosc_block *block = (void *)unit;

	if (!has_room(unit))
		block = (void *)reserve_slowly(call);
	if (!block)
		return NULL;
	block->stack = said->stack;
	block->tsc = said->tsc;
	block->addr = said->addr;
	block->size = said->size;
	__atomic_store_n(&block->commit, type << 28, __ATOMIC_RELEASE);
	return block;
}

static inline struct sosc_block *write(const struct sosc_block_call *call, uint32_t type,
				       uint64_t addr, uint64_t size, uint32_t stack)
{
	const struct sosc_block said = {
		.stack = stack, .tsc = sosc_ticks(), .addr = addr, .size = size};

	return fill(call, sosc_local_add(&call->thread->pos, SOSC_UNIT), type, &said);
}

struct sosc_block *sosc_block_write(const struct sosc_block_call *call, uint32_t type,
				    uint64_t addr, uint64_t size, uint32_t stack)
{
	return write(call, type, addr, size, stack);
}

// The unit of the block at @addr, if it is the thread's last record and can be changed.
static inline struct sosc_block *last_unit(const struct sosc_block_call *call, uint64_t addr)
{
	struct sosc_block *block = (void *)call->state->last;
	uint64_t pos = __atomic_load_n(&call->thread->pos, __ATOMIC_RELAXED);

	return block && (uint64_t)(block + 1) == pos && has_room(pos) && block->addr == addr &&
			       block->commit == (uint32_t)SOSC_UNIT_BLOCK << 28 ?
		       block :
		       NULL;
}

// The stack of a call, or with COUNT what is kept of it: the function.
static inline uint32_t stack_of(const struct sosc_block_call *call, enum sosc_block_api api)
{
	return mode == SOSC_BLOCKS_COUNT ? api : sosc_block_stack(call, api);
}

/** The same of a mapping, which is recorded with COUNT, too. */
uint32_t sosc_block_mapping_stack(const struct sosc_block_call *call, enum sosc_block_api api)
{
	if (mode == SOSC_BLOCKS_COUNT)
		return sosc_stack_of(NULL, 0, (uint64_t)api << SOSC_STACK_API,
				     (uint64_t)api << 58 | (uint64_t)api << 32);
	return sosc_block_stack(call, api);
}

// The block at @addr is about to be freed. One that was the last to come has one unit for both:
// meanwhile the next unit is ours, so that no signal handler can give the chunk away.
static inline void record_freed(const struct sosc_block_call *call, uint64_t addr)
{
	struct sosc_block *block = last_unit(call, addr);
	// where nobody else records, the order says it all, and the clock need not be read
	bool alone = block && __atomic_load_n(thread_count, __ATOMIC_RELAXED) == 1;
	const struct sosc_block said = {.tsc = alone ? block->tsc + 1 : sosc_ticks(), .addr = addr};
	uint64_t unit = sosc_local_add(&call->thread->pos, SOSC_UNIT), ticks;

	if (block && unit == (uint64_t)(block + 1) && has_room(unit)) {
		ticks = said.tsc - block->tsc;
		if (ticks >> SOSC_BLOCK_TICKS == 0) {
			__atomic_store_n(&block->commit,
					 (uint32_t)SOSC_UNIT_BLOCK_OVER << 28 | (uint32_t)ticks,
					 __ATOMIC_RELEASE);
			if (!sosc_local_swap(&call->thread->pos, unit + SOSC_UNIT, unit))
				(void)sosc_ring_unneeded(NULL, call->thread, unit);
			return;
		}
	}
	(void)fill(call, unit, SOSC_UNIT_FREED, &said);
}

static inline void freed(const struct sosc_block_call *call, uint64_t addr)
{
	if (call->state->recorded == addr)
		call->state->recorded = 0;
	if (mode == SOSC_BLOCKS_COUNT)
		(void)sosc_sizes_freed(call, addr);
	else
		record_freed(call, addr);
}

// The same of a call that may fail, and then leave it; what `kept` is to be told.
static inline uint64_t leaves(const struct sosc_block_call *call, uint64_t addr)
{
	if (mode == SOSC_BLOCKS_COUNT)
		return sosc_sizes_freed(call, addr);
	(void)write(call, SOSC_UNIT_FREED, addr, 0, 0);
	return 0;
}

static inline void kept(const struct sosc_block_call *call, uint64_t addr, uint64_t known)
{
	if (mode == SOSC_BLOCKS_COUNT)
		sosc_sizes_kept(call, addr, known);
	else
		(void)write(call, SOSC_UNIT_KEPT, addr, 0, 0);
}

static inline void made(const struct sosc_block_call *call, uint64_t addr, uint64_t size,
			uint32_t stack)
{
	if (mode == SOSC_BLOCKS_COUNT) {
		sosc_sizes_made(call, addr, size, stack);
		return;
	}
	call->state->last = (uint64_t)write(call, SOSC_UNIT_BLOCK, addr, size, stack);
}

// ---- calls -------------------------------------------------------------------

// A function that frees a block, makes one, or both. The result of posix_memalign is no address:
// that lies at @out.
static inline __attribute__((always_inline)) uint64_t allocate(const uint64_t arg[3], uint64_t sp,
							       uint64_t fp, struct sosc_cell *cell,
							       uint64_t old, uint64_t size,
							       const uint64_t *out,
							       enum sosc_block_api api)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};
	struct sosc_block_thread *state, before;
	uint64_t result, addr, known = 0;
	bool inside, frees;

	if (!begin(&call))
		return sosc_block_go_on(cell, arg[0], arg[1], arg[2]);
	state = call.state;
	before = *state;
	inside = sosc_block_is_inside(&call, BLOCK_NEAR);
	frees = old && !(inside && state->freeing == old);
	if (!inside) {
		state->stack = stack_of(&call, api);
		state->ret = sosc_returns_to(&call);
		state->recorded = 0;
		state->freeing = old;
		state->sp = sp;
	}
	if (frees)
		known = leaves(&call, old);
	result = sosc_block_go_on(cell, arg[0], arg[1], arg[2]);
	addr = sosc_block_addr(result, out);
	if (addr && state->recorded != addr) {
		made(&call, addr, size, state->stack);
		state->recorded = addr;
	} else if (!addr && frees && size) {
		kept(&call, old, known);
	}
	if (!inside) {
		state->sp = before.sp;
		state->ret = before.ret;
		state->recorded = before.recorded;
		state->freeing = before.freeing;
		state->stack = before.stack;
	}
	return result;
}

#define ALLOCATES(name, old, size, out, api)                                                     \
	uint64_t sosc_block_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp, \
				   struct sosc_cell *cell)                                       \
	{                                                                                        \
		const uint64_t arg[3] = {a, b, c};                                               \
                                                                                                 \
		return allocate(arg, sp, fp, cell, old, size, out, api);                         \
	}

SOSC_BLOCK_ALLOCATORS(ALLOCATES)

/** free, and what it is called besides. */
uint64_t sosc_block_free(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			 struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};

	if (a && begin(&call) &&
	    !(call.state->freeing == a && sosc_block_is_inside(&call, BLOCK_NEAR)))
		freed(&call, a);
	return sosc_block_go_on(cell, a, b, c);
}

/** operator delete, which calls free. */
uint64_t sosc_block_delete(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			   struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};
	struct sosc_block_thread *state, before;
	uint64_t result;

	if (!a || !begin(&call))
		return sosc_block_go_on(cell, a, b, c);
	state = call.state;
	if (sosc_block_is_inside(&call, BLOCK_NEAR)) {
		if (state->freeing != a)
			freed(&call, a);
		return sosc_block_go_on(cell, a, b, c);
	}
	freed(&call, a);
	before = *state;
	state->ret = sosc_returns_to(&call);
	state->freeing = a;
	state->sp = sp;
	result = sosc_block_go_on(cell, a, b, c);
	state->sp = before.sp;
	state->ret = before.ret;
	state->freeing = before.freeing;
	return result;
}

// ---- the instrument ------------------------------------------------------------

static void start(void)
{
	const uint64_t size = (uint64_t)THREAD_COUNT * sizeof(*sosc_block_threads) + SOSC_PAGE;
	struct sosc_blocks *own = sosc_stacks_start();

	mode = own->mode;
	sosc_block_allocator = NULL;
	sosc_python_stacks_start((const void *)((const uint8_t *)own + own->first_layout),
				 (uint32_t)own->layouts);
	if ((mode == SOSC_BLOCKS_SAMPLE && !sosc_sample_start(own)) ||
	    (mode == SOSC_BLOCKS_COUNT && !sosc_sizes_start(own))) {
		mode = SOSC_BLOCKS_NONE;
		return;
	}
	if (sosc_block_threads) {
		(void)sosc_sys3(SYS_MADVISE, (long)sosc_block_threads, (long)size, MADV_DONTNEED);
		return;
	}
	sosc_block_threads = sosc_mmap(NULL, size, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sosc_mmap_failed(sosc_block_threads))
		sosc_block_threads = NULL;
	else
		(void)sosc_sys3(SYS_MADVISE, (long)sosc_block_threads, (long)size, MADV_WIPEONFORK);
	thread_count = (uint32_t *)(sosc_block_threads + THREAD_COUNT);
}

#define NAMES(NAME)                          \
	NAME(calloc, calloc)                 \
	NAME(realloc, realloc)               \
	NAME(reallocarray, reallocarray)     \
	NAME(posix_memalign, posix_memalign) \
	NAME(aligned_alloc, aligned_alloc)   \
	NAME(memalign, memalign)             \
	NAME(valloc, valloc)                 \
	NAME(pvalloc, pvalloc)               \
	NAME(malloc, malloc)

#define MAPPING_NAMES(NAME)  \
	NAME(mmap, mmap)     \
	NAME(mmap64, mmap)   \
	NAME(munmap, munmap) \
	NAME(mremap, mremap) \
	NAME(brk, brk)       \
	NAME(sbrk, sbrk)

static bool begins(const char *symbol, const char start[4])
{
	for (uint32_t i = 0; i < 4; i++)
		if (symbol[i] != start[i])
			return false;
	return true;
}

#define HANDLER(name, function)       \
	if (sosc_same(symbol, #name)) \
		return (uint64_t)sosc_h_block_##function;
#define SAMPLER(name, function)       \
	if (sosc_same(symbol, #name)) \
		return (uint64_t)sosc_h_sample_##function;

static uint64_t sampled(const char *symbol)
{
	NAMES(SAMPLER)
	if (begins(symbol, "_Znw"))
		return (uint64_t)sosc_h_sample_new;
	if (begins(symbol, "_Zna"))
		return (uint64_t)sosc_h_sample_new_array;
	return (uint64_t)sosc_h_sample_free;
}

// By the name; the plan chooses no others.
static uint64_t hooked(const struct sosc_candidate *at, uint32_t cell)
{
	const char *symbol = at->symbol;

	(void)cell;
	if (!sosc_block_threads || mode == SOSC_BLOCKS_NONE)
		return (uint64_t)sosc_h_jump;
	sosc_python_stacks_see(at->image);
	MAPPING_NAMES(HANDLER)
	if (mode == SOSC_BLOCKS_SAMPLE) {
		// a program that has an allocator of its own makes mappings of its own, too
		if (sosc_same(symbol, "malloc") && at->callee && !at->callee->main)
			sosc_block_allocator = at->callee;
		return sampled(symbol);
	}
	NAMES(HANDLER)
	if (begins(symbol, "_Znw"))
		return (uint64_t)sosc_h_block_new;
	if (begins(symbol, "_Zna"))
		return (uint64_t)sosc_h_block_new_array;
	if (begins(symbol, "_Zdl") || begins(symbol, "_Zda"))
		return (uint64_t)sosc_h_block_delete;
	return (uint64_t)sosc_h_block_free;
}

void sosc_instrument_blocks(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_IDS | SOSC_NEEDS_CLOCK;
	instrument->addresses = true;
	instrument->hooked = hooked;
	instrument->start = start;
}
