// SPDX-License-Identifier: Apache-2.0
// picks: which objects are counted by chance, and the marks that say where one may be: as many as a plain
// array counts, also where interpreters with a lock each are at work at once.
#include "host.h"

#include "objects/common/objects.h"
#include "vm/origin.h"
#include "objects/common/picks.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MEAN = 50,
	OBJECTS = 200000,
	SIZE = 32,
	THREADS = 4,
	TURNS = 100000,
	PLACES = 8, // of each thread
	AGAIN = PICKS_MARKS << PICKS_NEAR, // so far away the same mark is
	MANY = 300, // more than a mark counts
};

#define FIRST 0x7f0000000000ull

static uint32_t model[PICKS_MARKS];
static pthread_barrier_t all_are_there;

static uint32_t *count_at(uint64_t addr)
{
	return &model[addr >> PICKS_NEAR & (PICKS_MARKS - 1)];
}

// An object and its block have a mark each, which may be the same one.
static void change(uint64_t block, uint32_t shift, uint32_t by)
{
	static const uint64_t behind[] = {0, 16, 32, 8};

	__atomic_fetch_add(count_at(block), by, __ATOMIC_RELAXED);
	__atomic_fetch_add(count_at(block + behind[shift]), by, __ATOMIC_RELAXED);
}

static void make(uint64_t block, uint32_t shift, uint32_t origin)
{
	change(block, shift, 1);
	sosc_picks_made(block, shift, origin);
	CHECK(*sosc_side_at(block) == (SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | origin));
	CHECK(sosc_picks_may_be(block));
}

static void end(uint64_t block, uint32_t shift)
{
	CHECK(sosc_picks_may_be(block));
	sosc_picks_gone(block, sosc_side_at(block));
	CHECK(!*sosc_side_at(block));
	change(block, shift, (uint32_t)-1);
}

static void check(void)
{
	for (uint64_t i = 0; i < PICKS_MARKS; i++)
		CHECK(sosc_picks.marks[i] == model[i]);
}

// ---- chance ------------------------------------------------------------------------

static void check_chance(void)
{
	uint64_t chosen = 0, hits = 0;

	for (uint32_t i = 0; i < OBJECTS; i++) {
		if (!sosc_picks_take(SIZE))
			continue;
		chosen++;
		CHECK(sosc_picks.left > 0);
	}
	// 1 - exp(-33/50) of them, within six standard deviations
	CHECK(chosen > 0.4831 * OBJECTS - 6 * 224 && chosen < 0.4831 * OBJECTS + 6 * 224);
	for (uint32_t i = 0; i < OBJECTS; i++)
		hits += sosc_picks_take(0); // each byte is as likely as any other
	CHECK(hits > OBJECTS / MEAN - 6 * 63 && hits < OBJECTS / MEAN + 6 * 63);
}

static void check_coarse(void)
{
	uint64_t seed = 1;

	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t bytes = PICKS_FEW + (host_random(&seed) >> (21 + i % 40));
		uint64_t coarse = sosc_picks_coarse(bytes);

		if (bytes >= 1ull << 31) {
			CHECK(coarse == 1ull << 31);
			continue;
		}
		CHECK(coarse <= bytes && (bytes - coarse) * 16 < bytes);
		CHECK(sosc_picks_coarse(coarse) == coarse && __builtin_popcountll(coarse) <= 5);
	}
}

// ---- marks -------------------------------------------------------------------------

static uint64_t block_at(uint64_t at)
{
	return FIRST + at + AGAIN * (at % 3);
}

static void check_one_by_one(void)
{
	for (uint32_t shift = 0; shift < 4; shift++) {
		for (uint64_t at = 0; at < 512; at += 16) {
			uint32_t *word, was;

			make(block_at(at), shift, ORIGINS_FIRST + shift);
			check();
			word = sosc_side_at(block_at(at));
			was = *word;
			sosc_picks_gone(block_at(at),
					word); // a call that was to free it has failed
			CHECK(!*word);
			sosc_picks_stays(block_at(at), word, was);
			CHECK(*word == was);
		}
		check();
		for (uint64_t at = 0; at < 512; at += 16)
			end(block_at(at), shift);
		check();
	}
}

static void check_no_origin(void)
{
	uint64_t lost = sosc_objects_tally.lost;

	sosc_picks_made(FIRST, 0, ORIGIN_UNKNOWN);
	sosc_picks_made(1ull << 60, 0, ORIGINS_FIRST); // there are no such addresses
	CHECK(sosc_objects_tally.lost == lost + 2);
	check();
}

static void *work(void *number)
{
	uint64_t seed = (uint64_t)number + 1, first = FIRST + ((uint64_t)number + 1) * 16 * AGAIN;
	bool is_there[PLACES] = {false};

	pthread_barrier_wait(&all_are_there);
	for (uint32_t i = 0; i < TURNS; i++) {
		uint32_t place = host_random(&seed) % PLACES;

		if (is_there[place])
			end(first + place * AGAIN, 1); // all of them have one mark
		else
			make(first + place * AGAIN, 1, ORIGINS_FIRST);
		is_there[place] = !is_there[place];
	}
	for (uint32_t place = 0; place < PLACES; place++)
		if (is_there[place])
			end(first + place * AGAIN, 1);
	return NULL;
}

static void check_threads(void)
{
	pthread_t threads[THREADS];

	CHECK(!pthread_barrier_init(&all_are_there, NULL, THREADS));
	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	check();
}

// A mark that cannot count so many says for good that there may be one.
static void check_many(void)
{
	for (uint64_t i = 0; i < MANY; i++)
		make(FIRST + i * AGAIN, 0, ORIGINS_FIRST);
	CHECK(*sosc_picks_mark(FIRST) == UINT8_MAX);
	for (uint64_t i = 0; i < MANY; i++)
		end(FIRST + i * AGAIN, 0);
	CHECK(*sosc_picks_mark(FIRST) == UINT8_MAX && !sosc_picks_may_be(FIRST + 4096));
	make(FIRST + 4096, 0, ORIGINS_FIRST);
	sosc_picks_begin();
	CHECK(!*sosc_side_at(FIRST + 4096) && !sosc_picks_may_be(FIRST));
	change(FIRST + 4096, 0, (uint32_t)-1);
	check();
}

static void check_child(void)
{
	uint64_t seed = sosc_picks.seed;
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		sosc_picks.asked = 7;
		sosc_picks_forked();
		_exit(sosc_picks.seed == seed || sosc_picks.asked || sosc_picks.left <= 0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
}

int main(void)
{
	sosc_side_begin();
	sosc_picks_plan(2248304); // MEAN * ln(2), times 2^16
	CHECK(sosc_picks_may_be(FIRST) && sosc_picks.is_wanted && !sosc_picks.is_on);
	sosc_picks_begin();
	check();
	check_chance();
	check_coarse();
	check_one_by_one();
	check_no_origin();
	check_threads();
	check_many();
	check_child();
	sosc_picks_end();
	CHECK(sosc_picks_may_be(FIRST) && !sosc_picks.is_on && !sosc_picks.is_wanted);
	return 0;
}
