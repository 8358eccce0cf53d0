// SPDX-License-Identifier: Apache-2.0
// Blocks and mappings: a record when one is made, with the stack of the call, and a record when it
// is freed.
//
// Each function is replaced by one that calls it and so sees its result: nothing returns through a
// trampoline, and nothing has to be kept between two records. The free of a block is recorded
// before the function is called, and its allocation after the function has returned. So if another
// thread gets the memory next, its record is the later one.
//
// Allocators call each other: operator new calls malloc. The outermost call determines which
// function the program called, and from where. The innermost call that is seen records the block.

#include "blocks/blocks.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/memory.h"
#include "base/sys.h"
#include "blocks/eventclock.h"
#include "blocks/threadstacks.h"
#include "call/cost.h"
#include "call/handler.h"
#include "hook/slot.h"
#include "image/image.h"
#include "image/lookup.h"
#include "ring/ring.h"
#include "stack/walkcache.h"
#include "thread/thread.h"
#include "thread/work.h"

const struct sosc_loaded *sosc_block_allocator;
struct sosc_block_thread *sosc_block_threads;
static uint32_t mode; // enum sosc_block_mode
static struct sosc_blocks *head;

static struct sosc_thread *slow(struct sosc_cell *cell)
{
	struct sosc_thread *thread = sosc_thread_self();

	if (thread)
		return thread;
	if (sosc_quiet)
		__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
	else
		__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_THREADS], 1, __ATOMIC_RELAXED);
	return NULL;
}

// A thread makes its first call of these functions in this session, or takes the place of another
// thread. If system calls are forbidden, it gets no new memory.
static void meet(struct sosc_block_thread *state, const struct sosc_thread *thread)
{
	memset(state, 0, sizeof(*state));
	if (mode != SOSC_BLOCKS_COUNT)
		state->view.memos = sosc_memos_of(thread);
	state->tid_check = thread->tid_check;
	if (mode == SOSC_BLOCKS_SAMPLE)
		sosc_sample_thread(state, thread->tid);
	else if (mode == SOSC_BLOCKS_EXACT)
		state->patience = 1;
}

// As FIND_THREAD in assembly. Returns NULL if the thread has no place yet.
static inline struct sosc_thread *find_thread(void)
{
	uint64_t tp = sosc_thread_pointer();
	uint32_t at = (uint32_t)(tp >> 12) * THREAD_FACTOR >> (32 - THREAD_BITS);
	struct sosc_thread *thread = &sosc_threads[at];

	if (thread->key != tp || thread->tid_check != sosc_thread_word(sosc_tid_offset))
		return NULL;
	return thread;
}

static inline struct sosc_block_thread *state_of(const struct sosc_thread *thread)
{
	return &sosc_block_threads[thread - sosc_threads];
}

/** Find the thread that makes the call. Return false if the call is not recorded. */
inline bool sosc_block_call_begin(struct sosc_block_call *call)
{
	call->thread = find_thread();
	if (!call->thread)
		call->thread = slow(call->cell);
	if (!call->thread)
		return false;
	call->state = state_of(call->thread);
	if (call->state->tid_check != call->thread->tid_check)
		meet(call->state, call->thread);
	return true;
}

static uint64_t way; // ticks that a call takes besides its work, on the path to this code and back

// Begins the timed work for a call. If it is timed, does the search of sosc_block_call_begin again,
// so that it is included. See sosc_cost_work.
static inline uint64_t work(struct sosc_block_call *call)
{
	uint64_t began = sosc_cost_work(call->thread);

	if (began)
		(void)sosc_block_call_begin(call);
	return began;
}

// ---- records -----------------------------------------------------------------

static inline bool has_room(uint64_t pos)
{
	return (((uint32_t)pos - CHUNK_FIRST) & CHUNK_MASK) < CHUNK_LIMIT - CHUNK_FIRST;
}

static uint64_t reserve_slowly(const struct sosc_block_call *call)
{
	uint64_t unit = sosc_ring_reserve(call->thread, SOSC_UNIT, SOSC_LOSS_ENTRY);

	// soscope has just read the next chunk, so its memory is in the cache of another processor
	if (mode == SOSC_BLOCKS_EXACT)
		state_of(call->thread)->ahead = sosc_ring_ahead(call->thread);
	if (!unit && sosc_quiet)
		__atomic_store_n(&call->cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
	return unit;
}

static inline void put(struct sosc_block *block, uint32_t type, uint32_t stack, uint64_t tsc,
		       uint64_t addr, uint64_t size)
{
	block->stack = stack;
	block->tsc = tsc;
	block->addr = addr;
	block->size = size;
	__atomic_store_n(&block->commit, type << 28, __ATOMIC_RELEASE);
}

// All values are computed before there is room. So a child that a signal handler forks in between
// writes the same as its parent.
static inline struct sosc_block *fill(const struct sosc_block_call *call, uint64_t unit,
				      uint32_t type, const struct sosc_block *said)
{
	struct sosc_block *block = (void *)unit;

	if (!has_room(unit))
		block = (void *)reserve_slowly(call);
	if (!block)
		return NULL;
	put(block, type, said->stack, said->tsc, said->addr, said->size);
	return block;
}

static inline struct sosc_block *write(const struct sosc_block_call *call, uint32_t type,
				       uint64_t addr, uint64_t size, uint32_t stack)
{
	const struct sosc_block said = {
		.stack = stack, .tsc = sosc_block_time(call->state), .addr = addr, .size = size};
	struct sosc_block *block =
		fill(call, sosc_local_add(&call->thread->pos, SOSC_UNIT), type, &said);

	sosc_will_write((uint64_t)block + call->state->ahead);
	return block;
}

/** Record something that happened at @tsc. */
struct sosc_block *sosc_block_write_at(const struct sosc_block_call *call, uint32_t type,
				       uint64_t addr, uint64_t size, uint32_t stack, uint64_t tsc)
{
	const struct sosc_block said = {.stack = stack, .tsc = tsc, .addr = addr, .size = size};

	return fill(call, sosc_local_add(&call->thread->pos, SOSC_UNIT), type, &said);
}

/** Record a mapping, or a block that was chosen, with a time from the clock. */
struct sosc_block *sosc_block_write(const struct sosc_block_call *call, uint32_t type,
				    uint64_t addr, uint64_t size, uint32_t stack)
{
	return sosc_block_write_at(call, type, addr, size, stack, sosc_ticks());
}

// Returns whether the block at @addr is the thread's last record, the unit @block, and whether the
// unit can be changed.
static inline bool is_last(const struct sosc_thread *thread, const struct sosc_block *block,
			   uint64_t addr)
{
	uint64_t pos = __atomic_load_n(&thread->pos, __ATOMIC_RELAXED);

	return block && (uint64_t)(block + 1) == pos && has_room(pos) && block->addr == addr &&
	       block->commit == (uint32_t)SOSC_UNIT_BLOCK << 28;
}

// The block of the thread's last record is freed: turns its unit into one that tells both.
// Meanwhile the thread owns the next unit, so that no signal handler can give the chunk away.
// Returns false if a handler has done that before.
static inline bool end_last(struct sosc_thread *thread, struct sosc_block *block, uint64_t tsc)
{
	uint64_t next = (uint64_t)(block + 1), ticks = tsc - block->tsc;

	if (ticks >> SOSC_BLOCK_TICKS || !sosc_local_swap(&thread->pos, next, next + SOSC_UNIT))
		return false;
	__atomic_store_n(&block->commit, (uint32_t)SOSC_UNIT_BLOCK_OVER << 28 | (uint32_t)ticks,
			 __ATOMIC_RELEASE);
	return true;
}

// Gives back the next unit. Returns false if a signal handler has taken more units behind it.
static inline bool is_given_back(struct sosc_thread *thread, uint64_t next)
{
	return sosc_local_swap(&thread->pos, next + SOSC_UNIT, next);
}

// Returns the number of the call's stack. With COUNT it is only the function.
static inline uint32_t stack_of(const struct sosc_block_call *call, enum sosc_block_api api)
{
	return mode == SOSC_BLOCKS_COUNT ? api : sosc_block_stack(call, api);
}

/** The same for a mapping, which is recorded with COUNT, too. */
uint32_t sosc_block_mapping_stack(const struct sosc_block_call *call, enum sosc_block_api api)
{
	if (mode == SOSC_BLOCKS_COUNT)
		return sosc_stack_of(NULL, 0, (uint64_t)api << SOSC_STACK_API,
				     (uint64_t)api << 58 | (uint64_t)api << 32);
	return sosc_block_stack(call, api);
}

// Records that the block at @addr is about to be freed.
static inline void record_freed(const struct sosc_block_call *call, uint64_t addr)
{
	struct sosc_block *block = (void *)call->state->last;
	bool last = is_last(call->thread, block, addr);
	const struct sosc_block said = {.tsc = sosc_block_time(call->state), .addr = addr};

	if (!last || !end_last(call->thread, block, said.tsc))
		(void)fill(call, sosc_local_add(&call->thread->pos, SOSC_UNIT), SOSC_UNIT_FREED,
			   &said);
	else if (!is_given_back(call->thread, (uint64_t)(block + 1)))
		(void)sosc_ring_unneeded(NULL, call->thread, (uint64_t)(block + 1));
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

// The same for a call that may fail and then leaves the block as it is. Returns what `kept` needs
// in that case.
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

// Runs a function that frees a block, makes one, or both. The result of posix_memalign is not an
// address; the address is stored at @out.
static inline __attribute__((always_inline)) uint64_t allocate(const uint64_t arg[3], uint64_t sp,
							       uint64_t fp, struct sosc_cell *cell,
							       uint64_t old, uint64_t size,
							       const uint64_t *out,
							       enum sosc_block_api api)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};
	struct sosc_block_thread *state, before;
	uint64_t result, addr, known = 0, began, pause;
	bool inside, frees;
	uint32_t stack;

	if (!sosc_block_call_begin(&call))
		return sosc_block_go_on(cell, arg[0], arg[1], arg[2]);
	began = work(&call);
	state = call.state;
	inside = sosc_block_is_inside(&call, BLOCK_NEAR);
	before = *state;
	frees = old && !(inside && before.freeing == old);
	inside &= before.recorded != BLOCK_NONE;
	stack = inside ? before.stack : stack_of(&call, api);
	sosc_block_set_none(state);
	if (!inside) {
		state->stack = stack;
		state->recorded = 0;
		state->freeing = old;
	}
	sosc_block_set_open(state, sp, sosc_returns_to(&call));
	if (frees)
		known = leaves(&call, old);
	pause = sosc_cost_pause(began);
	result = sosc_block_go_on(cell, arg[0], arg[1], arg[2]);
	sosc_cost_go_on(call.thread, pause);
	addr = sosc_block_addr(result, out);
	if (addr && state->recorded != addr) {
		made(&call, addr, size, state->stack);
		state->recorded = addr;
	} else if (!addr && frees && size) {
		kept(&call, old, known);
	}
	sosc_block_set_none(state);
	if (!inside) {
		state->recorded = before.recorded;
		state->freeing = before.freeing;
		state->stack = before.stack;
	}
	// if this stores 0, `recorded` and `freeing` are 0, too
	sosc_block_set_open(state, before.sp, before.ret);
	sosc_cost_worked(call.thread, began, 0, way);
	return result;
}

#define ALLOCATES_AS(function, ...)                                                     \
	uint64_t function(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp, \
			  struct sosc_cell *cell)                                       \
	{                                                                               \
		const uint64_t arg[3] = {a, b, c};                                      \
                                                                                        \
		return allocate(arg, sp, fp, cell, __VA_ARGS__);                        \
	}
#define ALLOCATES(name, ...) ALLOCATES_AS(sosc_block_##name, SOSC_BLOCK_OF_ROW(name, __VA_ARGS__))
#define MALLOC(...) static ALLOCATES_AS(any_malloc, SOSC_BLOCK_OF_ROW(__VA_ARGS__))

SOSC_FAMILY_FREQUENT(ALLOCATES)
SOSC_FAMILY_RARE(ALLOCATES)
SOSC_FAMILY_NEW(ALLOCATES)
SOSC_FAMILY_MALLOC(MALLOC)

// Programs call malloc and free far more often than the other functions. So these two have fast
// paths for the usual case. In other cases, and if something unexpected happens midway, they do the
// same as the other functions.

// The end of malloc outside of the fast path. @tsc is the time of the block at @addr, and the chunk
// has no room for it. If @tsc is 0, no time was taken.
static __attribute__((noinline)) uint64_t end_malloc(struct sosc_cell *cell,
						     struct sosc_thread *thread, uint64_t tsc,
						     uint64_t addr, uint64_t size)
{
	struct sosc_block_thread *state = state_of(thread);
	const struct sosc_block_call call = {.cell = cell, .thread = thread, .state = state};

	if (addr && state->recorded != addr) {
		const struct sosc_block said = {.stack = state->stack,
						.tsc = tsc ? tsc : sosc_block_time(state),
						.addr = addr,
						.size = size};
		uint64_t unit = tsc ? SOSC_NO_ROOM : sosc_local_add(&thread->pos, SOSC_UNIT);

		state->last = (uint64_t)fill(&call, unit, SOSC_UNIT_BLOCK, &said);
	}
	state->recorded = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->sp = 0;
	return addr;
}

// Makes a block with the call stack @stack, while no other call is open. @began is the time at
// which timed work began, 0 if it is not timed.
static inline __attribute__((always_inline)) uint64_t usual_malloc(uint64_t size, uint64_t sp,
								   struct sosc_cell *cell,
								   struct sosc_thread *thread,
								   uint32_t stack, uint64_t began)
{
	struct sosc_block_thread *state = state_of(thread);
	uint64_t addr, tsc, pause;
	struct sosc_block *block;

	state->stack = stack;
	state->ret = *(const uint64_t *)sp;
	state->sp = sp;
	pause = sosc_cost_pause(began);
	addr = sosc_block_go_on(cell, size, 0, 0);
	sosc_cost_go_on(thread, pause);
	if (!addr || state->recorded)
		return end_malloc(cell, thread, 0, addr, size);
	tsc = sosc_block_time_soon(state);
	if (!tsc)
		return end_malloc(cell, thread, 0, addr, size);
	block = (void *)sosc_local_add(&thread->pos, SOSC_UNIT);
	if (!has_room((uint64_t)block))
		return end_malloc(cell, thread, tsc, addr, size);
	put(block, SOSC_UNIT_BLOCK, state->stack, tsc, addr, size);
	sosc_will_write((uint64_t)block + state->ahead);
	state->last = (uint64_t)block;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->sp = 0;
	return addr;
}

// The same with timing. The search for the thread and the stack is repeated, so that it is
// included.
static __attribute__((noinline)) uint64_t timed_malloc(uint64_t size, uint64_t sp, uint64_t fp,
						       struct sosc_cell *cell,
						       struct sosc_thread *thread)
{
	uint64_t began = sosc_cost_start(thread), addr;
	uint32_t stack;

	thread = find_thread();
	stack = sosc_memo_stack(&state_of(thread)->view, sp, fp, SOSC_API_MALLOC);
	addr = usual_malloc(size, sp, cell, thread, stack, began);
	sosc_cost_worked(thread, began, 0, way);
	return addr;
}

/** malloc, for the case that no other call is open and the stack was walked before. */
uint64_t sosc_block_malloc(uint64_t size, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			   struct sosc_cell *cell)
{
	struct sosc_block_thread *state;
	struct sosc_thread *thread;
	uint32_t stack;

	// malloc has no such arguments; ignoring them saves the registers that would keep them
	(void)b;
	(void)c;
	thread = find_thread();
	if (!thread)
		return any_malloc(size, 0, 0, sp, fp, cell);
	state = state_of(thread);
	if (state->sp | state->recorded)
		return any_malloc(size, 0, 0, sp, fp, cell);
	stack = sosc_memo_stack(&state->view, sp, fp, SOSC_API_MALLOC);
	if (!stack)
		return any_malloc(size, 0, 0, sp, fp, cell);
	if (sosc_cost_is_due(thread))
		return timed_malloc(size, sp, fp, cell, thread);
	return usual_malloc(size, sp, cell, thread, stack, 0);
}

static __attribute__((noinline)) uint64_t any_free(uint64_t a, uint64_t b, uint64_t c, uint64_t sp,
						   uint64_t fp, struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};

	uint64_t began;

	if (a && sosc_block_call_begin(&call) &&
	    !(call.state->freeing == a && sosc_block_is_inside(&call, BLOCK_NEAR))) {
		began = work(&call);
		freed(&call, a);
		sosc_cost_worked(call.thread, began, 0, way);
	}
	return sosc_block_go_on(cell, a, b, c);
}

static __attribute__((noinline)) uint64_t free_unneeded(uint64_t a, uint64_t b, uint64_t c,
							struct sosc_thread *thread, uint64_t unit,
							struct sosc_cell *cell)
{
	(void)sosc_ring_unneeded(NULL, thread, unit);
	return sosc_block_go_on(cell, a, b, c);
}

// Frees @block, the thread's newest block, while no other call is open. @began is the time at which
// timed work began, 0 if it is not timed.
static inline __attribute__((always_inline)) uint64_t
usual_free(const uint64_t arg[3], uint64_t sp, uint64_t fp, struct sosc_cell *cell,
	   struct sosc_thread *thread, struct sosc_block *block, uint64_t began)
{
	uint64_t tsc = sosc_block_time_soon(state_of(thread));

	if (!tsc || !end_last(thread, block, tsc)) {
		thread->works--; // any_free continues the same piece of work
		return any_free(arg[0], arg[1], arg[2], sp, fp, cell);
	}
	if (!is_given_back(thread, (uint64_t)(block + 1)))
		return free_unneeded(arg[0], arg[1], arg[2], thread, (uint64_t)(block + 1), cell);
	sosc_cost_worked(thread, began, 0, way);
	return sosc_block_go_on(cell, arg[0], arg[1], arg[2]);
}

// The same with timing.
static __attribute__((noinline)) uint64_t timed_free(const uint64_t arg[3], uint64_t sp,
						     uint64_t fp, struct sosc_cell *cell,
						     struct sosc_thread *thread,
						     struct sosc_block *block)
{
	return usual_free(arg, sp, fp, cell, thread, block, sosc_cost_start(thread));
}

/** free and its other names, with a fast path for the thread's newest block. */
uint64_t sosc_block_free(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			 struct sosc_cell *cell)
{
	struct sosc_block_thread *state;
	struct sosc_thread *thread;
	struct sosc_block *block;

	thread = find_thread();
	if (!thread)
		return any_free(a, b, c, sp, fp, cell);
	state = state_of(thread);
	block = (void *)state->last;
	if (!is_last(thread, block, a) || state->sp)
		return any_free(a, b, c, sp, fp, cell);
	if (sosc_cost_is_due(thread))
		return timed_free((const uint64_t[]){a, b, c}, sp, fp, cell, thread, block);
	return usual_free((const uint64_t[]){a, b, c}, sp, fp, cell, thread, block, 0);
}

/** operator delete, which calls free. */
uint64_t sosc_block_delete(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			   struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};
	struct sosc_block_thread *state, before;
	uint64_t result, began;

	if (!a || !sosc_block_call_begin(&call))
		return sosc_block_go_on(cell, a, b, c);
	state = call.state;
	if (sosc_block_is_inside(&call, BLOCK_NEAR)) {
		if (state->freeing != a)
			freed(&call, a);
		return sosc_block_go_on(cell, a, b, c);
	}
	began = work(&call);
	freed(&call, a);
	sosc_cost_worked(call.thread, began, 0, way);
	before = *state;
	sosc_block_set_none(state);
	state->recorded = BLOCK_NONE;
	state->freeing = a;
	sosc_block_set_open(state, sp, sosc_returns_to(&call));
	result = sosc_block_go_on(cell, a, b, c);
	sosc_block_set_none(state);
	state->recorded = before.recorded;
	state->freeing = before.freeing;
	sosc_block_set_open(state, before.sp, before.ret);
	return result;
}

// ---- the instrument ------------------------------------------------------------

// Measures the cost of a call that frees nothing.
static uint64_t measure(void)
{
	struct sosc_cost cost;

	if (!sosc_cost_begin(&cost, SOSC_INSTRUMENT_BLOCKS, (uint64_t)sosc_h_block_free))
		return 0;
	for (int round = 0; round < 2 * COST_ROUNDS; round++)
		sosc_cost_round(&cost, round & 1);
	(void)sosc_cost_end(&cost);
	return sosc_cost_usual(&cost);
}

static void start(void)
{
	const uint64_t size = (uint64_t)THREAD_COUNT * sizeof(*sosc_block_threads);
	struct sosc_blocks *own;
	const struct sosc_blocks *given = sosc_stacks_start(SOSC_INSTRUMENT_BLOCKS, &own);

	head = own;
	mode = given->mode;
	sosc_lead_start(given, own);
	sosc_made_threads_start(own);
	sosc_block_allocator = NULL;
	sosc_block_forget_nested(NULL);
	if (mode == SOSC_BLOCKS_COUNT)
		sosc_sizes_start(given, own);
	if (mode == SOSC_BLOCKS_SAMPLE && !sosc_sample_start(given)) {
		mode = SOSC_BLOCKS_NONE;
		return;
	}
	if (sosc_block_threads) {
		(void)sosc_sys3(SYS_MADVISE, (long)sosc_block_threads, (long)size, MADV_DONTNEED);
	} else {
		sosc_block_threads = sosc_memory_map(size);
		if (!sosc_block_threads)
			return;
		sosc_memory_keep(sosc_block_threads, size, &sosc_block_threads);
		(void)sosc_sys3(SYS_MADVISE, (long)sosc_block_threads, (long)size, MADV_WIPEONFORK);
	}
	if (mode == SOSC_BLOCKS_EXACT && !way)
		way = measure();
}

static bool begins(const char *symbol, const char start[4])
{
	for (uint32_t i = 0; i < 4; i++)
		if (symbol[i] != start[i])
			return false;
	return true;
}

#define MAPPER(name, function)        \
	if (sosc_same(symbol, #name)) \
		return (uint64_t)sosc_h_block_##function;
#define HANDLER(name, ...) MAPPER(name, name)
#define SAMPLER(name, ...)            \
	if (sosc_same(symbol, #name)) \
		return (uint64_t)sosc_h_sample_##name;

// ---- pointers from dlsym ------------------------------------------------------
//
// What the program calls through a pointer that dlsym has given goes through no slot. The agent
// sees which functions dlsym is asked for, and tells soscope. It changes no result of dlsym.

enum { RTLD_NEXT_HANDLE = -1 }; // dlfcn.h; RTLD_DEFAULT is 0

// the bits of functions that make, move or remove mappings, by the end of their handlers' names
enum {
	BIT_OF_mmap = 1u << SOSC_API_MMAP,
	BIT_OF_mremap = 1u << SOSC_API_MREMAP,
	BIT_OF_brk = 1u << SOSC_API_BRK,
	BIT_OF_sbrk = 1u << SOSC_API_SBRK,
	BIT_OF_munmap = SOSC_GIVEN_MUNMAP,
};

#define BIT(name, bit)                \
	if (sosc_same(symbol, #name)) \
		return bit;
#define MAKER_BIT(name, api, number, ...) BIT(name, 1u << (number))
#define FREES_BIT(name) BIT(name, SOSC_GIVEN_FREE)
#define MAPS_BIT(name, function) BIT(name, (uint32_t)BIT_OF_##function)

// Returns the bit of a function whose calls are recorded, 0 if it is none.
static uint32_t bit_of(const char *symbol)
{
	SOSC_FAMILY_ALLOCATORS(MAKER_BIT)
	SOSC_FAMILY_MAPPINGS(MAPS_BIT)
	SOSC_FAMILY_FREES(FREES_BIT)
	BIT(pthread_create, 1u << SOSC_API_PTHREAD_CREATE)
	BIT(thrd_create, 1u << SOSC_API_THRD_CREATE)
	if (begins(symbol, "_Znw"))
		return 1u << SOSC_API_NEW;
	if (begins(symbol, "_Zna"))
		return 1u << SOSC_API_NEW_ARRAY;
	return begins(symbol, "_Zdl") || begins(symbol, "_Zda") ? SOSC_GIVEN_FREE : 0;
}

// Returns whether dlsym answers with the program's own stub, whose slot is hooked. See
// sosc_past_canonical.
static bool gives_stub(uint64_t handle, const char *symbol)
{
	const struct sosc_loaded *main = &sosc_loaded[0];

	if (handle && handle != (uint64_t)main->map)
		return false;
	for (uint64_t i = 0; main->jmprel && i < main->jmprelcount; i++) {
		uint32_t index = (uint32_t)ELF64_R_SYM(main->jmprel[i].r_info);
		const Elf64_Sym *at = &main->symtab[index];

		if (at->st_shndx == SHN_UNDEF && at->st_value &&
		    sosc_same(sosc_symbol_name(main, index), symbol))
			return true;
	}
	return false;
}

static void give(uint32_t image, uint32_t bit)
{
	for (uint32_t i = 0; i < SOSC_GIVEN; i++) {
		uint64_t there = 0;

		if (i == SOSC_GIVEN - 1)
			image = SOSC_GIVEN_OTHERS;
		if (!__atomic_compare_exchange_n(&head->given[i], &there,
						 (uint64_t)(image + 1) << 32 | bit, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
		    there >> 32 == image + 1)
			__atomic_fetch_or(&head->given[i], bit, __ATOMIC_RELAXED);
		if (!there || there >> 32 == image + 1)
			return;
	}
}

// An image that is put before the C library asks for the next function of the name of its own:
// calls of its own function are recorded.
static void asked(uint64_t handle, const char *symbol, uint64_t ret)
{
	const struct sosc_loaded *image = sosc_image_of(ret);
	uint32_t bit = symbol ? bit_of(symbol) : 0;

	if (bit && !gives_stub(handle, symbol) &&
	    !(handle == (uint64_t)RTLD_NEXT_HANDLE && image && sosc_exports(image, symbol)))
		give(image ? image->index : SOSC_GIVEN_OTHERS, bit);
}

static uint64_t sampled(const char *symbol)
{
	SOSC_FAMILY_ALLOCATORS(SAMPLER)
	if (begins(symbol, "_Znw"))
		return (uint64_t)sosc_h_sample_new;
	if (begins(symbol, "_Zna"))
		return (uint64_t)sosc_h_sample_new_array;
	return (uint64_t)sosc_h_sample_free;
}

// Chooses the handler by the function's name. The plan chooses no other functions.
static uint64_t hooked(const struct sosc_candidate *at, uint32_t cell)
{
	const char *symbol = at->symbol;
	uint64_t handler;

	(void)cell;
	if (!sosc_block_threads || mode == SOSC_BLOCKS_NONE)
		return (uint64_t)sosc_h_jump;
	if (sosc_same(symbol, "malloc") && at->callee && at->callee->main)
		head->has_allocator = 1;
	if (sosc_same(symbol, "dlsym") || sosc_same(symbol, "dlvsym"))
		return (uint64_t)sosc_h_block_dlsym;
	SOSC_FAMILY_MAPPINGS(MAPPER)
	handler = sosc_made_threads_hooked(at);
	if (handler)
		return handler;
	if (mode == SOSC_BLOCKS_SAMPLE) {
		// a program with an allocator of its own also makes mappings itself
		if (sosc_same(symbol, "malloc") && at->callee && !at->callee->main)
			sosc_block_allocator = at->callee;
		return sampled(symbol);
	}
	SOSC_FAMILY_ALLOCATORS(HANDLER)
	if (begins(symbol, "_Znw"))
		return (uint64_t)sosc_h_block_new;
	if (begins(symbol, "_Zna"))
		return (uint64_t)sosc_h_block_new_array;
	if (begins(symbol, "_Zdl") || begins(symbol, "_Zda"))
		return (uint64_t)sosc_h_block_delete;
	return (uint64_t)sosc_h_block_free;
}

// Handles a call that records something and then goes on, with no frame of the agent on the stack.
static enum sosc_next entry(struct sosc_call *call)
{
	if (sosc_cells[call->cell].handler == (uint64_t)sosc_h_block_dlsym)
		asked(*sosc_argument(call->regs, 0), (void *)*sosc_argument(call->regs, 1),
		      call->regs->ret);
	else
		sosc_made_threads_released(call);
	return SOSC_GO_ON;
}

void sosc_instrument_blocks(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_IDS | SOSC_NEEDS_CLOCK;
	instrument->addresses = true;
	instrument->hooked = hooked;
	instrument->entry = entry;
	instrument->start = start;
	instrument->forked = sosc_stacks_forked;
	instrument->closed = sosc_block_forget_nested;
}
