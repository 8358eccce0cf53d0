// SPDX-License-Identifier: Apache-2.0
// Stacks of threads. The C library maps them, keeps them for later threads, and unmaps them,
// without calls through slots. A stack is in use until its thread has ended and was joined or
// detached. So the agent hooks the call that makes a thread and the calls that join or detach it,
// and sees the thread's end.
//
// The thread begins in a function of the agent, which goes on to the program's function without a
// frame. There it stores a value with a destructor (pthread_setspecific), by which its end is seen:
// after its function has returned, after pthread_exit, and after a cancellation. So nothing of the
// agent lies on its stack.
//
// An end is recorded before the C library can give the stack to another thread. If the creating
// thread learns of the end before it has recorded the beginning, it records both.

#include "blocks/threadstacks.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/memory.h"
#include "call/cell.h"
#include "call/handler.h"
#include "hook/slot.h"
#include "image/image.h"
#include "image/lookup.h"
#include "stack/threadblock.h"
#include "stack/walkcache.h"
#include "thread/thread.h"

enum { // state of a thread that was made
	TAKEN = 1,
	BEGUN = 2, // it has determined where its stack is
	TOLD = 4, // its creator has recorded that
	RELEASED = 8, // it was detached, or is being joined
	ENDED = 16,
	GONE = 32, // both RELEASED and ENDED
	LEFT = 64, // the thread itself has to record its beginning
};

enum {
	MADE = 16384, // most threads at a time
	KEYS = 32, // further keys would need memory of the program
	DETACHED = 1, // in attributes: PTHREAD_CREATE_DETACHED
	USER_BITS = 47,
};

struct sosc_made_thread {
	uint32_t state;
	uint32_t process; // see sosc_process
	uint32_t session;
	uint32_t stack; // LEFT: call stack of the creating call
	uint64_t start, arg; // the program's function and its argument
	uint64_t thread; // the C library's name for the thread: its thread pointer
	uint64_t addr, size; // the block that contains its stack, 0 if unknown
	uint64_t begun, over; // tsc of its beginning and its end
	struct sosc_cell *cell; // cell of the call that made it
};

// Also valid in a child, which may have been forked in the middle of making a thread. The threads
// that ran in its parent do not exist there.
static struct sosc_made_thread *threads;
static uint32_t used; // most that were in use at a time
static uint32_t mapped_by; // the process that mapped them
static uint32_t key; // + 1
static uint64_t *lost;

static struct { // functions of the C library
	uint64_t key_create, key_delete, setspecific, getstack, getdetachstate;
} libc;

/** A session begins. Threads of earlier sessions may not have begun yet. */
void sosc_made_threads_start(struct sosc_blocks *own)
{
	const uint64_t size = (uint64_t)MADE * sizeof(*threads);

	lost = &own->threads_lost;
	if (threads)
		return;
	threads = sosc_memory_map(size);
	mapped_by = sosc_process();
	sosc_inside.made_threads = (uint64_t)threads;
}

/**
 * The agent rests: unmap the table, unless the C library will still report a thread's end. In a
 * forked child the table stays: the C library may report an end there, too. The only thread that
 * exists in the child may have an entry, which another thread that it has made has taken meanwhile.
 */
void sosc_made_threads_rest(void)
{
	if (mapped_by != sosc_process())
		return;
	for (uint32_t i = 0; i < used; i++)
		if (threads[i].state)
			return;
	sosc_memory_unmap(threads, MADE * sizeof(*threads));
	threads = NULL;
	used = 0;
	sosc_inside.made_threads = 0;
}

/** Return the handler for a slot, or 0 if the function is not one of these. */
uint64_t sosc_made_threads_hooked(const struct sosc_candidate *at)
{
	const char *symbol = at->symbol;
	uint32_t ns = at->image->ns;
	bool by_pthread = sosc_same(symbol, "pthread_create");

	if (sosc_same(symbol, "pthread_tryjoin_np"))
		return (uint64_t)sosc_h_block_tryjoin;
	if (sosc_same(symbol, "pthread_join") || sosc_same(symbol, "pthread_timedjoin_np") ||
	    sosc_same(symbol, "pthread_clockjoin_np") || sosc_same(symbol, "pthread_detach") ||
	    sosc_same(symbol, "thrd_join") || sosc_same(symbol, "thrd_detach"))
		return (uint64_t)sosc_h_layer;
	if (!by_pthread && !sosc_same(symbol, "thrd_create"))
		return 0;
	if (!threads || ns) // a C library of another namespace has its own keys
		return (uint64_t)sosc_h_jump;
	if (!libc.setspecific) {
		libc.key_create = sosc_function_addr(ns, "pthread_key_create");
		libc.key_delete = sosc_function_addr(ns, "pthread_key_delete");
		libc.getstack = sosc_function_addr(ns, "pthread_attr_getstack");
		libc.getdetachstate = sosc_function_addr(ns, "pthread_attr_getdetachstate");
		if (libc.key_create && libc.key_delete && libc.getstack && libc.getdetachstate)
			libc.setspecific = sosc_function_addr(ns, "pthread_setspecific");
	}
	return (uint64_t)(by_pthread ? sosc_h_block_pthread_create : sosc_h_block_thrd_create);
}

// ---- what is known of a thread ---------------------------------------------------

static uint32_t state_of(const struct sosc_made_thread *made)
{
	return __atomic_load_n(&made->state, __ATOMIC_ACQUIRE);
}

static uint32_t add(struct sosc_made_thread *made, uint32_t flag)
{
	return __atomic_fetch_or(&made->state, flag, __ATOMIC_ACQ_REL);
}

static void give_back(struct sosc_made_thread *made)
{
	__atomic_store_n(&made->thread, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&made->state, 0, __ATOMIC_RELEASE);
}

static bool is_of_parent(const struct sosc_made_thread *made)
{
	return made->process != sosc_process();
}

// An entry of the parent for a thread that has not begun may be the one that the child is about to
// make.
static bool is_free(const struct sosc_made_thread *made, uint32_t state)
{
	return !state || (state & BEGUN && is_of_parent(made));
}

static struct sosc_made_thread *take(uint32_t flags)
{
	for (uint32_t i = 0; threads && i < MADE; i++) {
		uint32_t was = state_of(&threads[i]), most;

		if (!is_free(&threads[i], was) ||
		    !__atomic_compare_exchange_n(&threads[i].state, &was, flags, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		most = __atomic_load_n(&used, __ATOMIC_RELAXED);
		while (most <= i &&
		       !__atomic_compare_exchange_n(&used, &most, i + 1, false, __ATOMIC_ACQ_REL,
						    __ATOMIC_RELAXED))
			continue;
		return &threads[i];
	}
	return NULL;
}

static bool has_name(const struct sosc_made_thread *made, uint64_t thread)
{
	return __atomic_load_n(&made->thread, __ATOMIC_ACQUIRE) == thread;
}

// Returns when a thread was given its name. A name is reused only after its thread has ended. So a
// thread that has not begun has got the name last.
static uint64_t when_named(const struct sosc_made_thread *made)
{
	uint64_t begun = __atomic_load_n(&made->begun, __ATOMIC_ACQUIRE);

	return begun ? begun : UINT64_MAX;
}

// Returns the newest thread of that name. An older one has ended without the agent knowing it yet:
// the call that joins it has not returned, or it has ended by a raw system call.
static struct sosc_made_thread *find(uint64_t thread)
{
	uint32_t most = __atomic_load_n(&used, __ATOMIC_ACQUIRE);
	struct sosc_made_thread *newest = NULL;
	uint64_t last = 0;

	for (uint32_t i = 0; thread && i < most; i++) {
		struct sosc_made_thread *made = &threads[i];
		uint64_t when;

		if (!has_name(made, thread) || is_of_parent(made) || state_of(made) & GONE)
			continue;
		when = when_named(made);
		// the entry may have become another thread's since the check above
		if (when <= last || !has_name(made, thread))
			continue;
		newest = made;
		last = when;
	}
	return newest;
}

// Finds the block of the calling thread. Only the first such call ever has to search for the
// offsets.
static bool find_own_block(uint64_t thread, struct sosc_made_thread *made)
{
	const struct sosc_thread *self;
	struct sosc_thread_block block;
	uint32_t tid = 0;

	if (!sosc_thread_block_at()) {
		self = sosc_thread_self();
		if (!self || sosc_is_sealed(self))
			return false;
		tid = self->tid;
	}
	if (!sosc_thread_block(tid, thread, &block))
		return false;
	made->addr = block.addr;
	made->size = block.size;
	return true;
}

// ---- its end ---------------------------------------------------------------------

static void record_end(struct sosc_block_call *call, struct sosc_made_thread *made)
{
	if (made->addr && made->session == (uint32_t)sosc_inside.sessions)
		(void)sosc_block_write_at(call, SOSC_UNIT_UNMAPPED, made->addr, made->size, 0,
					  made->over);
	give_back(made);
}

static void end(struct sosc_made_thread *made)
{
	struct sosc_block_call call = {.cell = made->cell,
				       .sp = (uint64_t)__builtin_frame_address(0)};

	if (!(add(made, GONE) & TOLD))
		return; // the creating thread records both
	if (sosc_block_call_begin(&call))
		record_end(&call, made);
	else
		give_back(made);
}

// The thread's later allocations are walked without memos.
static void give_walks_back(void)
{
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_block_thread *state = thread ? &sosc_block_threads[thread - sosc_threads] :
						   NULL;

	if (!state || state->tid_check != thread->tid_check)
		return;
	state->view.memos = NULL;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sosc_memos_end(thread);
}

// Called by the C library at the end of a thread that had stored @value.
static void ended(void *value)
{
	struct sosc_made_thread *made = value;
	uint32_t before;

	// the entry is not valid in a forked child, where another thread may have been made
	if (is_of_parent(made) ||
	    __atomic_load_n(&made->thread, __ATOMIC_RELAXED) != sosc_thread_pointer())
		return;
	made->over = sosc_ticks();
	before = add(made, ENDED);
	if (before & RELEASED && !(before & ENDED))
		end(made);
	give_walks_back();
}

static void released(uint64_t thread)
{
	struct sosc_made_thread *made = find(thread);
	uint32_t before;

	if (!made)
		return;
	before = add(made, RELEASED);
	if (!(before & ENDED) || before & RELEASED)
		return;
	made->over = sosc_ticks();
	end(made);
}

/** A thread is about to be joined or detached: its stack is released as soon as it has ended. */
void sosc_made_threads_released(const struct sosc_call *call)
{
	released(*sosc_argument(call->regs, 0));
}

/**
 * The same, if the thread has ended already. If it ends after this check and then is joined, its
 * stack may belong to another thread by now, and was released when the thread ended.
 */
uint64_t sosc_block_tryjoin(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			    struct sosc_cell *cell)
{
	struct sosc_made_thread *made = find(a);
	uint64_t result;

	(void)sp;
	(void)fp;
	if (made && state_of(made) & ENDED) {
		released(a);
		made = NULL;
	}
	result = sosc_block_go_on(cell, a, b, c);
	if (made && !(int32_t)result && !(add(made, RELEASED) & RELEASED))
		end(made);
	return result;
}

// ---- its beginning -----------------------------------------------------------------

// Returns the key that threads use, + 1, or 0 if there is none. A second thread that comes here
// takes the key of the first.
static uint32_t find_key(void)
{
	int32_t (*create)(uint32_t *, void (*)(void *)) = (void *)libc.key_create;
	int32_t (*delete)(uint32_t) = (void *)libc.key_delete;
	uint32_t mine, nobodys = 0, there = __atomic_load_n(&key, __ATOMIC_ACQUIRE);

	if (there)
		return there;
	if (!libc.setspecific || create(&mine, ended))
		return 0;
	if (mine < KEYS && __atomic_compare_exchange_n(&key, &nobodys, mine + 1, false,
						       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine + 1;
	(void)delete (mine);
	return nobodys;
}

static void record_beginning(struct sosc_block_call *call, const struct sosc_made_thread *made,
			     uint32_t stack, uint64_t tsc)
{
	if (made->addr)
		(void)sosc_block_write_at(call, SOSC_UNIT_MAPPED, made->addr, made->size, stack,
					  tsc);
	else
		__atomic_fetch_add(lost, 1, __ATOMIC_RELAXED);
}

// A thread records its own beginning, because its creator could not determine where its stack is.
static void tell_oneself(struct sosc_made_thread *made)
{
	struct sosc_block_call call = {.cell = made->cell,
				       .sp = (uint64_t)__builtin_frame_address(0)};

	if (made->session == (uint32_t)sosc_inside.sessions && sosc_block_call_begin(&call))
		record_beginning(&call, made, made->stack, made->begun);
	(void)add(made, TOLD);
}

/** A new thread runs: record where its stack is. Return where it goes on. */
struct sosc_thread_way sosc_thread_begins(struct sosc_made_thread *made)
{
	int32_t (*setspecific)(uint32_t, const void *) = (void *)libc.setspecific;
	const struct sosc_thread_way way = {made->start, made->arg};
	uint64_t thread = sosc_thread_pointer();

	if (is_of_parent(made))
		return way;
	if (!find_own_block(thread, made))
		made->addr = 0;
	__atomic_store_n(&made->begun, sosc_ticks(), __ATOMIC_RELAXED);
	__atomic_store_n(&made->thread, thread, __ATOMIC_RELAXED);
	(void)setspecific(__atomic_load_n(&key, __ATOMIC_RELAXED) - 1, made);
	if (add(made, BEGUN) & LEFT)
		tell_oneself(made);
	return way;
}

// Returns whether the program has provided the memory for the stack: then that memory is known
// already.
static bool has_stack(uint64_t attributes)
{
	int32_t (*getstack)(const void *, uint64_t *, uint64_t *) = (void *)libc.getstack;
	uint64_t addr, size;

	return attributes && !getstack((const void *)attributes, &addr, &size) && addr &&
	       !(addr >> USER_BITS);
}

static bool is_detached(uint64_t attributes)
{
	int32_t (*getdetachstate)(const void *, int32_t *) = (void *)libc.getdetachstate;
	int32_t how;

	return attributes && !getdetachstate((const void *)attributes, &how) && how == DETACHED;
}

// Finds the stack of a thread that was just made, by the name that the program has received.
// Another thread may have overwritten the name since. Returns false if the stack is not known yet.
static bool find_made(const struct sosc_block_call *call, struct sosc_made_thread *made,
		      uint64_t name_at)
{
	uint32_t tid = call->thread->tid;
	struct sosc_thread_block block;
	uint64_t thread;

	if (sosc_is_sealed(call->thread) ||
	    sosc_read(tid, &thread, name_at, sizeof(thread)) != sizeof(thread) ||
	    !sosc_thread_block(tid, thread, &block) ||
	    !sosc_thread_is_given(tid, thread, &block, (uint64_t)made))
		return false;
	// set before the program knows the name
	__atomic_store_n(&made->thread, thread, __ATOMIC_RELAXED);
	made->addr = block.addr;
	made->size = block.size;
	return true;
}

// A thread was made: records that its stack is mapped, with a time before the thread began.
static void tell(struct sosc_block_call *call, struct sosc_made_thread *made, uint64_t name_at,
		 enum sosc_block_api api)
{
	uint64_t tsc = sosc_ticks();

	made->stack = sosc_block_mapping_stack(call, api);
	if (!(state_of(made) & BEGUN) && !find_made(call, made, name_at) &&
	    !(add(made, LEFT) & BEGUN))
		return;
	if (state_of(made) & BEGUN && made->begun < tsc)
		tsc = made->begun;
	record_beginning(call, made, made->stack, tsc);
	if (add(made, TOLD) & GONE)
		record_end(call, made);
}

// @way: the thread's function and its argument.
static uint64_t create(struct sosc_mapping_call *said, uint64_t attributes, uint64_t way[2],
		       enum sosc_block_api api)
{
	struct sosc_block_call call = {
		.cell = said->cell, .sp = (uint64_t)&said->ret, .fp = said->fp};
	struct sosc_made_thread *made = NULL;
	uint64_t result;

	if (!sosc_mapping_begin(&call))
		return sosc_mapping_go_on(said->cell, said->arg);
	if (find_key()) {
		if (has_stack(attributes))
			return sosc_mapping_go_on(said->cell, said->arg);
		made = take(TAKEN | (is_detached(attributes) ? RELEASED : 0));
	}
	if (!made) {
		__atomic_fetch_add(lost, 1, __ATOMIC_RELAXED);
		return sosc_mapping_go_on(said->cell, said->arg);
	}
	made->start = way[0];
	made->arg = way[1];
	made->addr = made->begun = made->over = 0;
	made->cell = said->cell;
	made->session = (uint32_t)sosc_inside.sessions;
	__atomic_store_n(&made->thread, 0, __ATOMIC_RELAXED);
	made->process = sosc_process();
	way[0] = (uint64_t)sosc_h_thread_begins;
	way[1] = (uint64_t)made;
	result = sosc_mapping_go_on(said->cell, said->arg);
	if ((int32_t)result)
		give_back(made);
	else if (!is_of_parent(made))
		tell(&call, made, said->arg[0], api);
	else if (!sosc_is_quiet()) // in a child that was forked in the middle
		__atomic_fetch_add(lost, 1, __ATOMIC_RELAXED);
	return result;
}

uint64_t sosc_block_pthread_create(struct sosc_mapping_call *said)
{
	return create(said, said->arg[1], &said->arg[2], SOSC_API_PTHREAD_CREATE);
}

uint64_t sosc_block_thrd_create(struct sosc_mapping_call *said)
{
	return create(said, 0, &said->arg[1], SOSC_API_THRD_CREATE);
}
