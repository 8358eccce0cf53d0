// SPDX-License-Identifier: Apache-2.0
// Origins are found by the number that they got, however many more there are by then, by a thread
// that looks meanwhile, and in a child that is forked while another thread makes one.
#include "host.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm/origin.h"
#include "objects/common/objects.h"

enum { MANY = 100000, FORKS = 20, LONG = 4 << 20 };

static const char file[] = "file", name[] = "name", lines[] = "lines";
static const struct sosc_code_texts texts = {{file, 4, 1}, {name, 4, 1}, {lines, 5, 1}};
static uint32_t numbers[MANY], made;
static int stop;

static struct sosc_origin origin_of(uint32_t i)
{
	return (struct sosc_origin){
		.code = 0x1000 + i / 100 * 16,
		.file = (uint64_t)file,
		.name = (uint64_t)name,
		.lines = (uint64_t)lines,
		.first_line = 7,
		.instr = (int32_t)(i % 100),
	};
}

static void *look(void *unused)
{
	for (uint32_t i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i++) {
		uint32_t count = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
		struct sosc_origin origin;
		uint32_t number;

		if (!count)
			continue;
		origin = origin_of(i % count);
		number = sosc_origin_find(&origin, 1);
		CHECK(!number || number == numbers[i % count]);
	}
	return unused;
}

static void *hold(void *text)
{
	struct sosc_code_texts many = texts;
	struct sosc_origin origin = origin_of(0);

	many.lines = (struct sosc_text){text, LONG, 1};
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		(void)sosc_origin_code(&origin, &many, false); // nearly all of it with the lock
	return NULL;
}

static void check_many(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, look, NULL));
	for (uint32_t i = 0; i < MANY; i++) {
		struct sosc_origin origin = origin_of(i);

		CHECK(!sosc_origin_find(&origin, 1));
		numbers[i] = sosc_origin_make(&origin, &texts, 1);
		CHECK(numbers[i] >= ORIGINS_FIRST &&
		      sosc_origins[numbers[i]].instr == origin.instr);
		__atomic_store_n(&made, i + 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
	for (uint32_t i = 0; i < MANY; i++) {
		struct sosc_origin origin = origin_of(i);

		CHECK(sosc_origin_find(&origin, 1) == numbers[i]);
		CHECK(!sosc_origin_find(&origin, 2)); // not seen in this epoch yet
	}
}

static void check_forked(void)
{
	pthread_t thread;

	stop = 0;
	CHECK(!pthread_create(&thread, NULL, hold, calloc(LONG, 1)));
	for (uint32_t i = 0; i < FORKS; i++) {
		int status;
		pid_t child;

		usleep(3000);
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			struct sosc_origin origin = origin_of(MANY + i);

			_exit(sosc_origin_make(&origin, &texts, 1) == ORIGIN_UNKNOWN);
		}
		CHECK(waitpid(child, &status, 0) == child && !status);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
}

// A thread has left by siglongjmp and holds the lock: others wait for it once.
static void check_left(void)
{
	uint32_t *lock = &sosc_origin_locks[ORIGIN_LOCK_MAKE];
	struct sosc_origin first = origin_of(MANY + FORKS), second = origin_of(MANY + FORKS + 1);

	*lock = 1;
	CHECK(sosc_origin_make(&first, &texts, 1) == ORIGIN_UNKNOWN);
	CHECK(*lock == 2); // whoever comes next sees that at once
	CHECK(sosc_origin_make(&second, &texts, 1) == ORIGIN_UNKNOWN);
	*lock = 0; // it has come back
	CHECK(sosc_origin_make(&first, &texts, 1) >= ORIGINS_FIRST);
	CHECK(!*lock);
}

int main(void)
{
	CHECK(sosc_origins_init());
	check_many();
	check_forked();
	check_left();
	return 0;
}
