// SPDX-License-Identifier: Apache-2.0
// tables: each thread that lives has a table of its own, or shares the first one; that of a thread that
// has ended goes on with another one, and no call is lost on the way.
#include "host.h"

#include "image/image.h"
#include "prof/prof.h"
#include "thread/thread.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	TABLES = 6,
	STACK = 0x1000000,
	AFTER = 50, // threads that run one after the other
	AT_ONCE = 8, // more than there are tables
	WAVES = 12,
	CALLS = 300,
	MANY = 40000,
	FUNCTIONS = 16,
};

static struct sosc_prof *own;
static uint64_t model[FUNCTIONS]; // calls
static uint32_t threads; // that have asked for a table
static struct sosc_prof_table *taken[AT_ONCE]; // by threads that live
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_have;
static int is_over;

static struct sosc_prof_table *table_at(uint32_t number)
{
	return (void *)((uint8_t *)own + SOSC_PAGE + number * (uint64_t)SOSC_PROF_TABLE_SIZE);
}

static uint64_t function(uint64_t number)
{
	return 0x500000 + number * 0x100;
}

static void enter(uint64_t number, uint64_t sp)
{
	sosc_prof_enter(function(number), 0x400000, function(number) + 20, sp);
	__atomic_fetch_add(&model[number], 1, __ATOMIC_RELAXED);
}

static void check(void)
{
	uint64_t calls[FUNCTIONS] = {0}, all = 0;

	for (uint32_t k = 0; k < own->used; k++) {
		all += table_at(k)->threads;
		for (uint32_t i = 0; i < SOSC_PROF_NODES; i++) {
			const struct sosc_prof_node *node = &sosc_prof_nodes(table_at(k))[i];

			if (node->key)
				calls[(node->function - function(0)) / 0x100] += node->calls;
		}
		CHECK(!sosc_prof_nodes(table_at(k))->calls);
	}
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		CHECK(calls[i] == model[i]);
	CHECK(all == threads);
}

static struct sosc_prof_table *begin(void)
{
	const struct sosc_prof_thread *self = sosc_prof_self();

	CHECK(self && self->table && sosc_prof_self() == self);
	__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
	return self->table;
}

static void join(pthread_t thread)
{
	CHECK(!pthread_join(thread, NULL));
}

// ---- one after the other -----------------------------------------------------------

static void *leave_open(void *calls)
{
	struct sosc_prof_table *table = begin();

	CHECK(table != sosc_prof_shared && table->tid == (uint32_t)gettid());
	for (uint64_t i = 0; i < (uint64_t)calls; i++)
		enter(i, STACK - 64 * i);
	return table;
}

static uint64_t left(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < TABLES; i++)
		sum += table_at(i)->left;
	return sum;
}

// A table's next thread finds the calls that are open there, and gives them up.
static void check_open_calls(void)
{
	uint32_t used = own->used;

	for (uint32_t i = 0; i < AFTER; i++) {
		pthread_t thread;

		CHECK(!pthread_create(&thread, NULL, leave_open, (void *)(uint64_t)(i % 5)));
		join(thread);
		check();
	}
	CHECK(own->used == TABLES && used == 2);
	// all but those of the last ones
	CHECK(left() == AFTER / 5 * 10 - (1 + 2 + 3 + 4));
}

// ---- at once -----------------------------------------------------------------------

static void take(uint64_t place, struct sosc_prof_table *table)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; table && i < AT_ONCE; i++)
		CHECK(taken[i] != table);
	taken[place] = table;
	pthread_mutex_unlock(&lock);
}

static void *work(void *place)
{
	struct sosc_prof_table *table = begin();
	bool is_shared = table == sosc_prof_shared;

	if (!is_shared)
		take((uint64_t)place, table);
	for (uint64_t i = 0; i < CALLS; i++) {
		enter(i % FUNCTIONS, STACK - 64);
		sosc_prof_exit(function(i % FUNCTIONS), 0x400000, STACK - 64, 0);
	}
	CHECK(sosc_prof_self()->table == table);
	take((uint64_t)place, NULL);
	return NULL;
}

static void check_waves(void)
{
	for (uint32_t wave = 0; wave < WAVES; wave++) {
		pthread_t all[AT_ONCE];

		for (uint64_t i = 0; i < AT_ONCE; i++)
			CHECK(!pthread_create(&all[i], NULL, work, (void *)i));
		for (uint32_t i = 0; i < AT_ONCE; i++)
			join(all[i]);
	}
	check();
}

static void *hold(void *place)
{
	struct sosc_prof_table *table = begin();

	pthread_barrier_wait(&all_have);
	for (uint32_t i = 0; i < MANY; i++)
		sosc_prof_count_slow(function(5), 0x400000, function(5) + 20);
	__atomic_fetch_add(&model[5], MANY, __ATOMIC_RELAXED);
	__atomic_store_n(&taken[(uint64_t)place], table, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		usleep(500);
	return NULL;
}

// Those that find no table share the first one, also when another one is free.
static void check_full(void)
{
	pthread_t all[AT_ONCE], more;
	uint32_t shares = 0;

	CHECK(!pthread_barrier_init(&all_have, NULL, AT_ONCE));
	for (uint64_t i = 0; i < AT_ONCE; i++)
		CHECK(!pthread_create(&all[i], NULL, hold, (void *)i));
	for (uint32_t i = 0; i < AT_ONCE; i++) {
		while (!__atomic_load_n(&taken[i], __ATOMIC_ACQUIRE))
			usleep(500);
		shares += taken[i] == sosc_prof_shared;
		for (uint32_t k = 0; k < i; k++)
			CHECK(taken[k] != taken[i] || taken[i] == sosc_prof_shared);
		CHECK(taken[i] != sosc_prof_self()->table);
	}
	CHECK(shares == AT_ONCE - (TABLES - 2)); // the first one, and this thread's
	CHECK(!pthread_create(&more, NULL, work, (void *)(uint64_t)0));
	join(more);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < AT_ONCE; i++)
		join(all[i]);
	CHECK(!pthread_create(&more, NULL, leave_open, NULL));
	join(more);
	check();
}

// ---- processes and sessions --------------------------------------------------------

static void *share(void *unused)
{
	CHECK(begin() == sosc_prof_shared);
	usleep(500);
	return unused;
}

// A child has no table of its parent's; those of its parent's images stay what they are.
static void check_child(void)
{
	const struct sosc_loaded image = {.start = function(0), .end = function(9), .index = 6};
	const uint64_t moved = 7ull << SOSC_IMAGE_SHIFT;
	struct sosc_prof_table *mine = sosc_prof_self()->table;
	pthread_t all[AT_ONCE];
	int status;
	pid_t child;

	own->tables++; // for the child
	enter(3, STACK);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(leave_open((void *)4ul) == table_at(TABLES));
		CHECK(table_at(TABLES)->pid == (uint32_t)getpid());
		for (uint64_t i = 0; i < AT_ONCE; i++)
			CHECK(!pthread_create(&all[i], NULL, share, NULL));
		for (uint32_t i = 0; i < AT_ONCE; i++)
			join(all[i]);
		own->flags = SOSC_PROF_FOLLOWED;
		sosc_prof_closed(&image);
		own->flags = 0;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(table_at(TABLES)->pid == (uint32_t)child && sosc_prof_self()->table == mine);
	for (uint32_t k = 0; k <= TABLES; k++)
		for (uint32_t i = 0; i < SOSC_PROF_NODES; i++) {
			const struct sosc_prof_node *node = &sosc_prof_nodes(table_at(k))[i];

			if (node->key && node->function - moved < function(9))
				CHECK((node->function > moved) == (k == TABLES));
		}
	sosc_prof_exit(function(3), 0x400000, STACK, 0);
}

static void check_next_session(void)
{
	struct sosc_prof_table *mine = sosc_prof_self()->table;

	memset(table_at(0), 0, TABLES * (uint64_t)SOSC_PROF_TABLE_SIZE);
	own->tables = 2;
	CHECK(sosc_prof_tables_start());
	CHECK(sosc_prof_self()->table == table_at(1) && sosc_prof_self()->table != mine + 1);
	CHECK(own->used == 2 && table_at(1)->threads == 1);
}

int main(void)
{
	const uint64_t size = SOSC_PAGE + (TABLES + 1) * (uint64_t)SOSC_PROF_TABLE_SIZE;

	(void)host_control(SOSC_INSTRUMENT_PROF, 0);
	host_plan->flags = sosc_control->flags = SOSC_FLAG_FOLLOW;
	host_look();
	own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	CHECK(own != MAP_FAILED);
	own->mode = SOSC_PROF_TIME;
	own->tables = TABLES;
	own->period = 1;
	own->first_table = SOSC_PAGE;
	sosc_prof_given = sosc_prof = own;
	CHECK(sosc_prof_tables_start());
	CHECK(begin() == table_at(1));
	check_open_calls();
	check_waves();
	check_full();
	check_child();
	check_next_session();
	return 0;
}
