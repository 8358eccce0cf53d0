// SPDX-License-Identifier: Apache-2.0
// sizes: what is counted by function and size class is what plain arrays count, whoever frees a block,
// whatever a signal handler counts meanwhile, with and without memory for the words.
#include "host.h"

#include "thread/thread.h"
#include "blocks/blocks.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ARRAYS = 5, // fewer than there are threads
	THREADS = 8,
	TURNS = 20000,
	PLACES = 64,
	APART = 1 << 10,
	SAME = 24,
	LEAF = 1 << 20,
	API = SOSC_API_NEW_ARRAY, // the last one
};

#define FIRST 0x7f0000000000ull
#define ALONE 0x7e0000000000ull // where one thread has blocks, and no leaf is there

static struct sosc_blocks *own;
static struct sosc_sizes *arrays;
static struct sosc_size_class model[SOSC_SIZES_APIS][SOSC_SIZES_CLASSES];
static uint64_t strange, untracked, untracked_bytes;
static __thread struct sosc_block_thread state;
static __thread volatile bool is_busy;
static __thread volatile uint32_t now_api, now_size; // what the thread counts

static struct sosc_block_call call(void)
{
	return (struct sosc_block_call){.thread = sosc_thread_self(), .state = &state};
}

static void add(uint64_t *to, uint64_t number)
{
	__atomic_fetch_add(to, number, __ATOMIC_RELAXED);
}

static struct sosc_size_class *class_of(uint32_t api, uint64_t size)
{
	uint64_t ends = SOSC_SIZES_STEP, number = 0;

	for (; ends < size; number++)
		ends = ends < SOSC_SIZES_FINE ? ends + SOSC_SIZES_STEP : 2 * ends;
	return &model[api][number];
}

static void make(uint64_t addr, uint64_t size, uint32_t api)
{
	struct sosc_block_call here = call();

	sosc_sizes_made(&here, addr, size, api);
	add(&class_of(api, size)->made, 1);
	add(&class_of(api, size)->made_bytes, size);
}

static uint64_t end(uint64_t addr, uint64_t size, uint32_t api)
{
	struct sosc_block_call here = call();

	add(&class_of(api, size)->freed, 1);
	add(&class_of(api, size)->freed_bytes, size);
	return sosc_sizes_freed(&here, addr);
}

static uint64_t end_of_nothing(uint64_t addr)
{
	struct sosc_block_call here = call();

	add(&strange, 1);
	return sosc_sizes_freed(&here, addr);
}

static void check(void)
{
	uint64_t strange_sum = 0, untracked_sum = 0, bytes = 0;

	for (uint32_t i = 0; i < SOSC_SIZES_APIS * SOSC_SIZES_CLASSES; i++) {
		struct sosc_size_class sum = {0}, want = (&model[0][0])[i];

		for (uint32_t k = 0; k < ARRAYS; k++) {
			const struct sosc_size_class *one = (void *)arrays[k].classes;

			sum.made += one[i].made;
			sum.made_bytes += one[i].made_bytes;
			sum.freed += one[i].freed;
			sum.freed_bytes += one[i].freed_bytes;
		}
		CHECK(sum.made == want.made && sum.made_bytes == want.made_bytes);
		CHECK(sum.freed == want.freed && sum.freed_bytes == want.freed_bytes);
	}
	for (uint32_t k = 0; k < ARRAYS; k++) {
		strange_sum += arrays[k].strange;
		untracked_sum += arrays[k].untracked;
		bytes += arrays[k].untracked_bytes;
	}
	CHECK(strange_sum == strange && untracked_sum == untracked && bytes == untracked_bytes);
}

// ---- one thread --------------------------------------------------------------------

static void check_sizes(void)
{
	static const uint64_t sizes[] = {0,    1,    16,   17,	    1024,    1025,	2048,
					 2049, 4094, 4095, 1 << 16, 1 << 17, 1ull << 40};

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (uint32_t api = 1; api <= API; api++) {
			uint64_t addr = ALONE + (uint64_t)api * LEAF - 8 * i, known;

			make(addr, sizes[i], api); // also at the end of a leaf
			CHECK(!end_of_nothing(addr + 64) && !end_of_nothing(addr - 8));
			known = end(addr, sizes[i], api);
			CHECK(known && !end_of_nothing(addr));
		}
	make(ALONE + 32ull * LEAF, 24, 1); // a leaf's first words
	make(ALONE + 32ull * LEAF + 8, 32, 2);
	make(ALONE + 31ull * LEAF - 8, 1ull << 40, 3); // the last of the leaf in front
	CHECK(end(ALONE + 31ull * LEAF - 8, 1ull << 40, 3));
	CHECK(end(ALONE + 32ull * LEAF, 24, 1) && end(ALONE + 32ull * LEAF + 8, 32, 2));
	check();
}

// The call that was to free a block has failed: the block stays, and ends later.
static void check_kept(void)
{
	static const uint64_t sizes[] = {40, 5000};

	for (uint32_t i = 0; i < 2; i++) {
		struct sosc_block_call here = call();
		uint64_t known;

		make(ALONE, sizes[i], 3);
		known = sosc_sizes_freed(&here, ALONE);
		sosc_sizes_kept(&here, ALONE, known);
		check();
		CHECK(end(ALONE, sizes[i], 3) == known);
		sosc_sizes_kept(&here, ALONE, sosc_sizes_freed(&here, ALONE)); // unknown: no change
		check();
	}
}

// Two blocks at one address: the later call has made both.
static void check_taken_over(void)
{
	make(ALONE, 5000, 1);
	make(ALONE, 48, API);
	add(&class_of(1, 5000)->freed, 1);
	add(&class_of(1, 5000)->freed_bytes, 5000);
	check();
	end(ALONE, 48, API);
	CHECK(!end_of_nothing(ALONE) && !end_of_nothing(ALONE + 8)); // nothing of a long size
	check();
}

static void check_strangers(void)
{
	struct sosc_block_call here = call();

	sosc_sizes_made(&here, ALONE, 8, 0); // calls of an earlier session
	sosc_sizes_made(&here, ALONE, 8, SOSC_SIZES_APIS);
	CHECK(!end_of_nothing(ALONE) && !end_of_nothing(0) && !end_of_nothing(0x10));
	check();
}

// Without memory for its word a block is counted, and nobody knows when it goes; a session that begins
// asks for memory again.
static void check_memory(void)
{
	const uint64_t table = 1ull << 33; // addresses that have a table in common
	struct rlimit limit, none;

	CHECK(!getrlimit(RLIMIT_AS, &limit));
	none = (struct rlimit){SOSC_PAGE, limit.rlim_max};
	make(ALONE, 24, 1);
	for (uint32_t way = 0; way < 3; way++) {
		uint64_t addr = ALONE + (way ? 64ull * LEAF * way : table);

		if (way == 1)
			sosc_sealed = 1;
		else
			CHECK(!setrlimit(RLIMIT_AS, &none));
		make(addr, 100, 2);
		CHECK(!end_of_nothing(addr));
		sosc_sealed = 0;
		CHECK(!setrlimit(RLIMIT_AS, &limit));
		untracked++;
		untracked_bytes += 100;
	}
	check();
	sosc_sizes_start(own, own);
	CHECK(!end_of_nothing(ALONE)); // it was made in the session before
	for (uint32_t way = 0; way < 3; way++) {
		uint64_t addr = ALONE + (way ? 64ull * LEAF * way : table);

		make(addr, 100, 2);
		CHECK(end(addr, 100, 2));
	}
	check();
}

static void check_child(void)
{
	int status;
	pid_t child;

	make(ALONE, 24, 1);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		struct sosc_block_call here = {.thread = sosc_thread_self(), .state = &state};

		_exit(sosc_sizes_freed(&here, ALONE) != 0); // of its parent's
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(end(ALONE, 24, 1));
	strange++; // the counters are shared
	check();
}

// ---- many threads ------------------------------------------------------------------

static struct {
	uint64_t addr, size, api;
} shared[PLACES]; // addr: 0 while a thread has the place

static uint64_t counted_by_handler;

static void on_alarm(int signal)
{
	uint64_t addr = ALONE + 4096ull * LEAF;

	(void)signal;
	if (!is_busy)
		return;
	addr += 64 * __atomic_add_fetch(&counted_by_handler, 1, __ATOMIC_RELAXED);
	make(addr, now_size, now_api);
	end(addr, now_size, now_api);
}

static void *exchange(void *number)
{
	uint64_t seed = (uint64_t)number + 1, next = FIRST + ((uint64_t)number << 34);

	(void)call(); // the thread is known
	now_size = SAME;
	now_api = 1;
	is_busy = true; // from here on its handler counts, too
	for (uint32_t i = 0; i < TURNS || !__atomic_load_n(&counted_by_handler, 0); i++) {
		uint64_t random = host_random(&seed), place = random % PLACES, size, api, addr;

		addr = __atomic_exchange_n(&shared[place].addr, 0, __ATOMIC_ACQUIRE);
		if (addr)
			CHECK(end(addr, shared[place].size, (uint32_t)shared[place].api));
		else if (random & 1 << 10 || i < PLACES)
			continue; // another thread may have it
		size = random >> 20 & (random & 1 << 11 ? 0xffff : 0xff);
		api = 1 + (random >> 40) % API;
		now_size = (uint32_t)size;
		now_api = (uint32_t)api;
		make(next, size, (uint32_t)api);
		if (addr) { // the place is ours
			shared[place].size = size;
			shared[place].api = api;
			__atomic_store_n(&shared[place].addr, next, __ATOMIC_RELEASE);
		} else {
			CHECK(end(next, size, (uint32_t)api));
		}
		next += APART * (1 + (random >> 50 & 7));
		now_size = SAME; // all of them at one counter
		now_api = 1;
		for (uint32_t k = 0; k < 4; k++) {
			make(next, SAME, 1);
			CHECK(end(next, SAME, 1));
		}
	}
	is_busy = false;
	return NULL;
}

static void check_threads(void)
{
	pthread_t threads[THREADS];

	for (uint32_t i = 0; i < PLACES; i++) {
		shared[i].addr = ALONE + 64ull * (i + 1);
		shared[i].size = i;
		shared[i].api = 1;
		make(shared[i].addr, i, 1);
	}
	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, exchange, (void *)i));
	host_interrupt(on_alarm);
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	host_interrupt(NULL);
	CHECK(counted_by_handler);
	for (uint32_t i = 0; i < PLACES; i++)
		CHECK(end(shared[i].addr, shared[i].size, (uint32_t)shared[i].api));
	check();
	CHECK(own->arrays_used == ARRAYS);
	for (uint32_t k = 1; k < ARRAYS; k++)
		CHECK(arrays[k].tid && arrays[k].pid == (uint32_t)getpid());
	CHECK(!arrays[0].tid);
}

int main(void)
{
	const struct sosc_blocks begins = {
		.mode = SOSC_BLOCKS_COUNT,
		.first_array = sizeof(struct sosc_blocks),
		.arrays = ARRAYS,
		.arrays_used = 1,
	};
	const uint64_t size = sizeof(begins) + ARRAYS * sizeof(*arrays);

	host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(own != MAP_FAILED);
	*own = begins;
	arrays = (void *)(own + 1);
	sosc_sizes_start(own, own);
	check_sizes();
	check_kept();
	check_taken_over();
	check_strangers();
	check_memory();
	check_child();
	check_threads();
	return 0;
}
