// SPDX-License-Identifier: Apache-2.0
// threads: the stack of each thread is recorded once as mapped and once as unmapped, in this order, in
// whichever way the thread ends; and the threads of a parent are nothing of its child's.
#include "host.h"

#include "call/cell.h"
#include "image/image.h"
#include "base/instrument.h"
#include "blocks/threadstacks.h"
#include "hook/slot.h"
#include "soscope/stream.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CHUNKS = 1024,
	BITS = 8,
	WORDS = 4096,
	MAKERS = 6,
	TURNS = 40,
	STACKS = 4096,
	CHILDREN = 4,
	OF_CHILD = 4,
	DEEP = 1 << 18 // so far down do stacks have frames
};

static struct {
	struct sosc_blocks own;
	uint64_t buckets[1 << BITS];
	uint64_t words[WORDS];
} table = {
	.own = {.mode = SOSC_BLOCKS_EXACT,
		.bits = BITS,
		.words = WORDS,
		.words_used = 1,
		.first_bucket = offsetof(__typeof__(table), buckets),
		.first_word = offsetof(__typeof__(table), words),
		.lead = SOSC_LEAD_NOBODY},
};

static const struct host_symbol names[] = {
	{"pthread_key_create", pthread_key_create},
	{"pthread_key_delete", pthread_key_delete},
	{"pthread_setspecific", pthread_setspecific},
	{"pthread_attr_getstack", pthread_attr_getstack},
	{"pthread_attr_getdetachstate", pthread_attr_getdetachstate},
};

static const struct sosc_blocks *own;
static struct sosc_cell maker; // leads to pthread_create of the C library, not of a sanitizer
static uint64_t ends_of[STACKS]; // where the stack of each thread ends, as the C library says
static uint32_t made_count;

// ---- the program's calls -----------------------------------------------------------

void *begins(struct sosc_made_thread *thread) __asm__("sosc_h_thread_begins");

static bool are_held; // threads that have been made, and have not begun

// A thread that is cancelled, or stays in the parent, never leaves this frame. Where its stack was, the
// agent may map memory, by calls that no sanitizer sees.
__attribute__((no_sanitize_address)) void *begins(struct sosc_made_thread *thread)
{
	struct sosc_thread_way way;

	while (__atomic_load_n(&are_held, __ATOMIC_ACQUIRE))
		usleep(200);
	way = sosc_thread_begins(thread);
	return ((void *(*)(void *))way.start)((void *)way.arg);
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
		  void *arg)
{
	struct sosc_mapping_call call = {
		.cell = &maker,
		.arg = {(uint64_t)thread, (uint64_t)attributes, (uint64_t)start, (uint64_t)arg},
		.ret = (uint64_t)create,
	};

	return (int)sosc_block_pthread_create(&call);
}

static void release(pthread_t thread)
{
	struct sosc_regs regs = {.rdi = thread};
	const struct sosc_call call = {.regs = &regs};

	sosc_made_threads_released(&call);
}

static void join(pthread_t thread)
{
	release(thread);
	CHECK(!pthread_join(thread, NULL));
}

static int try_join_by(pthread_t thread, void *original)
{
	struct sosc_cell cell = {.original = (uint64_t)original};

	return (int)sosc_block_tryjoin(thread, 0, 0, 0, 0, &cell);
}

static int try_join(pthread_t thread)
{
	return try_join_by(thread, pthread_tryjoin_np);
}

// ---- threads -----------------------------------------------------------------------

// Whoever has a stack notes it before anybody can have it again. Where it ends is known of it alone: at
// another time, stacks may lie where two others were.
static void note(void)
{
	pthread_attr_t attributes;
	void *addr;
	size_t size;

	CHECK(!pthread_getattr_np(pthread_self(), &attributes));
	CHECK(!pthread_attr_getstack(&attributes, &addr, &size));
	CHECK(!pthread_attr_destroy(&attributes));
	ends_of[__atomic_fetch_add(&made_count, 1, __ATOMIC_RELAXED)] = (uint64_t)addr + size;
}

static void *work(void *how)
{
	note();
	if ((uint64_t)how & 1)
		pthread_exit(NULL);
	return NULL;
}

static void *work_unseen(void *unused)
{
	return unused;
}

static void *wait_for_end(void *unused)
{
	note();
	for (;;)
		pause();
	return NULL;
}

static void *make_some(void *number)
{
	pthread_attr_t detached;

	note();
	CHECK(!pthread_attr_init(&detached));
	CHECK(!pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED));
	for (uint64_t i = 0; i < TURNS; i++) {
		uint64_t way = (i + (uint64_t)number) % 5;
		pthread_t thread;
		int status;

		CHECK(!create(&thread, way == 4 ? &detached : NULL, work, (void *)i));
		if (way == 0) {
			join(thread);
		} else if (way == 1) {
			release(thread);
			CHECK(!pthread_detach(thread));
		} else if (way == 2) {
			usleep(100);
			release(thread);
			CHECK(!pthread_detach(thread));
		} else if (way == 3) {
			while ((status = try_join(thread)))
				CHECK(status == EBUSY);
		}
	}
	return NULL;
}

// ---- what is recorded --------------------------------------------------------------

static struct event {
	uint64_t addr, size, tsc;
	bool is_end;
} events[4 * STACKS];

static uint32_t event_count, of_children[2];

static void collect(void)
{
	uint64_t ring = (uint64_t)sosc_section(SOSC_SEC_RING);

	event_count = of_children[0] = of_children[1] = 0;
	for (uint64_t at = 0; at < (uint64_t)CHUNKS * SOSC_CHUNK_SIZE; at += SOSC_UNIT) {
		const struct sosc_chunk *chunk = (void *)(ring + (at & ~(SOSC_CHUNK_SIZE - 1ul)));
		const struct sosc_block *unit = (void *)(ring + at);
		uint32_t type = unit->commit >> 28;

		if (at % SOSC_CHUNK_SIZE < SOSC_CHUNK_HEADER)
			continue;
		if (type != SOSC_UNIT_MAPPED && type != SOSC_UNIT_UNMAPPED)
			continue;
		if (chunk->pid != (uint32_t)getpid()) {
			of_children[type == SOSC_UNIT_UNMAPPED]++;
			continue;
		}
		events[event_count++] = (struct event){unit->addr, unit->size, unit->tsc,
						       type == SOSC_UNIT_UNMAPPED};
	}
}

static int by_place_and_time(const void *left, const void *right)
{
	const struct event *a = left, *b = right;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

// Each stack begins and ends by turns, as often as there were threads on it.
static void check_events(void)
{
	for (uint32_t tries = 0; event_count != 2 * made_count && tries < 300; tries++) {
		usleep(10000); // threads that are detached may not have ended yet
		collect();
	}
	CHECK(event_count == 2 * made_count && !own->threads_lost);
	CHECK(of_children[0] == (CHILDREN / 2 + 1) * OF_CHILD && of_children[1] == of_children[0]);
	qsort(events, event_count, sizeof(*events), by_place_and_time);
	for (uint32_t i = 0; i < event_count; i++) {
		const struct event *event = &events[i];
		uint32_t begins_there = 0, threads = 0;

		CHECK(event->is_end == i % 2);
		CHECK(event->addr == events[i ^ 1].addr && event->size == events[i ^ 1].size);
		for (uint32_t k = 0; k < event_count; k++)
			begins_there += events[k].addr == event->addr && !events[k].is_end;
		for (uint32_t k = 0; k < made_count; k++)
			threads += ends_of[k] == event->addr + event->size;
		CHECK(begins_there == threads);
	}
}

// ---- ways to begin and to end ------------------------------------------------------

static void check_many(void)
{
	pthread_t makers[MAKERS];

	for (uint64_t i = 0; i < MAKERS; i++)
		CHECK(!create(&makers[i], NULL, make_some, (void *)i));
	for (uint32_t i = 0; i < MAKERS; i++)
		join(makers[i]);
}

static bool may_end;

static void *end_when_let(void *unused)
{
	(void)unused;
	note();
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
		usleep(200);
	return NULL;
}

static bool tries_first;

// A tryjoin that joins its thread, and takes so long that another thread has the stack and the name.
static int join_slowly(pthread_t thread)
{
	pthread_t next;

	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
	__atomic_store_n(&are_held, true, __ATOMIC_RELEASE);
	CHECK(!create(&next, NULL, work, NULL));
	CHECK(next == thread);
	if (tries_first)
		CHECK(try_join(next) == EBUSY);
	else
		release(next);
	__atomic_store_n(&are_held, false, __ATOMIC_RELEASE);
	if (tries_first)
		release(next);
	CHECK(!pthread_join(next, NULL));
	return 0;
}

static void check_name_given_again(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		pthread_t thread;

		may_end = false;
		tries_first = i;
		CHECK(!create(&thread, NULL, end_when_let, NULL));
		CHECK(!try_join_by(thread, join_slowly));
	}
}

static void check_cancelled(void)
{
	pthread_t thread;

	CHECK(!create(&thread, NULL, wait_for_end, NULL));
	CHECK(try_join(thread) == EBUSY);
	CHECK(!pthread_cancel(thread));
	join(thread);
}

// A stack that the program has made itself is known already, and a thread that is not made has none.
static void check_none(void)
{
	const uint64_t size = 1 << 18;
	pthread_attr_t attributes;
	pthread_t thread;

	CHECK(!pthread_attr_init(&attributes));
	CHECK(!pthread_attr_setstack(&attributes, aligned_alloc(SOSC_PAGE, size), size));
	CHECK(!create(&thread, &attributes, work_unseen, NULL));
	join(thread);
	CHECK(!pthread_attr_init(&attributes));
	CHECK(!pthread_attr_setstacksize(&attributes, 1ul << 46));
	CHECK(create(&thread, &attributes, work_unseen, NULL));
}

struct fork {
	pid_t child;
	bool makes; // threads of its own
};

// No frame is left in a child of threads that were in the middle of something, which the sanitizer does
// not know.
static void forget_frames(void)
{
	for (uint32_t i = 0; i < made_count; i++)
		ASAN_UNPOISON_MEMORY_REGION((void *)(ends_of[i] - DEEP), DEEP);
}

// The thread that has forked ends in the child, too, where it is not known.
static void *fork_and_end(void *how)
{
	struct fork *fork_here = how;
	pid_t child;

	note();
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		forget_frames();
		release(pthread_self());
		for (uint32_t i = 0; fork_here->makes && i < OF_CHILD; i++) {
			pthread_t thread;

			CHECK(!create(&thread, NULL, work, NULL));
			join(thread);
		}
		sosc_made_threads_rest(); // the C library goes on to say that this one has ended
		return NULL;
	}
	__atomic_store_n(&fork_here->child, child, __ATOMIC_RELEASE);
	return NULL;
}

static void check_child(bool is_detached, bool makes)
{
	struct fork fork_there = {.makes = makes};
	pthread_attr_t attributes;
	pthread_t thread;
	int status;

	CHECK(!pthread_attr_init(&attributes));
	if (is_detached)
		CHECK(!pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
	CHECK(!create(&thread, &attributes, fork_and_end, &fork_there));
	if (!is_detached)
		join(thread);
	while (!__atomic_load_n(&fork_there.child, __ATOMIC_ACQUIRE))
		usleep(200);
	CHECK(waitpid(fork_there.child, &status, 0) == fork_there.child && !status);
}

// What is left of the stacks of other threads is a child's for its own.
static void check_children(void)
{
	pthread_t stays[2];

	check_child(false, true); // nobody has a place but the thread that has forked
	for (uint32_t i = 0; i < 2; i++)
		CHECK(!create(&stays[i], NULL, wait_for_end, NULL));
	for (uint32_t i = 0; i < CHILDREN; i++)
		check_child(i & 1, i & 2);
	for (uint32_t i = 0; i < 2; i++) {
		CHECK(!pthread_cancel(stays[i]));
		join(stays[i]);
	}
}

int main(void)
{
	struct sosc_loaded *image;
	struct sosc_candidate at = {.symbol = "pthread_create"};
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	struct link_map map;

	maker.original = (uint64_t)dlsym(libc, "pthread_create");
	CHECK(maker.original);
	(void)host_control(SOSC_INSTRUMENT_BLOCKS, CHUNKS);
	at.image = image = host_image(names, sizeof(names) / sizeof(*names));
	image->map = &map;
	sosc_loaded_count = 1;
	host_plan->flags = sosc_control->flags = SOSC_FLAG_FOLLOW;
	host_own(&table, sizeof(table));
	sosc_instruments[SOSC_INSTRUMENT_BLOCKS].start();
	own = sosc_own(SOSC_INSTRUMENT_BLOCKS, sizeof(*own));
	CHECK(sosc_made_threads_hooked(&at) == (uint64_t)sosc_h_block_pthread_create);
	check_name_given_again();
	check_many();
	check_cancelled();
	check_none();
	check_children();
	check_events();
	return 0;
}
