// SPDX-License-Identifier: Apache-2.0
// The numbers that frames of Python name their code by, with an interpreter of a few lines: a number
// is made once, and is true until its own code object ends, whatever else ends, in whichever thread.
#include "interpreter.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/instrument.h"
#include "thread/thread.h"

enum { THREADS = 8, TURNS = 400, CODES = 4 };

static int is_asked, may_answer;
static struct sosc_thread asker; // whoever asks holds the lock

static const char *version(void)
{
	__atomic_store_n(&is_asked, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&may_answer, __ATOMIC_ACQUIRE))
		sched_yield();
	return "3.9.2 (a few lines)";
}

static const struct host_symbol names[] = {
	{"Py_IsInitialized", is_initialized},
	{"PyList_New", code_dealloc}, // by its name alone
	{"PyCode_Type", &code_type},
	{"Py_GetVersion", version},
	{"PyGILState_GetThisThreadState", thread_state},
	{"_PyThreadState_UncheckedGet", thread_state},
};

static void end(struct whole *whole)
{
	code_type.dealloc(&whole->code);
}

// The number that the one frame of this thread has.
static uint32_t number_of(struct whole *whole)
{
	struct frame frame = {.code = &whole->code};
	uint64_t word = 0;

	own_state.frame = &frame;
	CHECK(sosc_python_stack(&word, 1, &asker) == 1);
	return (uint32_t)word;
}

// ---- checks ------------------------------------------------------------------------

static void start_session(void)
{
	(void)host_stacks(&layout);
	sosc_python_stacks_see(&sosc_loaded[0]);
	CHECK(sosc_languages[SOSC_LANGUAGE_PYTHON].is_there);
}

// While another thread makes a number, nobody else gets a new one.
static void forbid(bool yes)
{
	__atomic_store_n(&sosc_origin_locks[ORIGIN_LOCK_MAKE], yes, __ATOMIC_RELEASE);
}

static void check_that_others_stay(void)
{
	static struct whole kept, other, later;
	uint32_t number, before;

	begin(&kept, 1);
	begin(&other, 2);
	number = number_of(&kept);
	CHECK(says(number, &kept) && says(number_of(&other), &other));
	end(&other);
	CHECK(ended == 1);
	forbid(true);
	CHECK(number_of(&kept) == number);
	CHECK(number_of(&other) != number);
	begin(&later, 3);
	CHECK(!says(number_of(&later), &later)); // a new one is forbidden, indeed
	forbid(false);

	before = number;
	end(&kept);
	begin(&kept, 4); // at the same address, and so are its names
	number = number_of(&kept);
	CHECK(number != before && says(number, &kept));
}

static void check_sessions(void)
{
	static struct whole kept;
	uint32_t number;

	begin(&kept, 5);
	number = number_of(&kept);
	CHECK(says(number, &kept));
	code_type.dealloc = code_dealloc; // as soscope gives it back
	start_session();
	CHECK(says(number_of(&kept), &kept));
	end(&kept);
	begin(&kept, 6);
	CHECK(says(number_of(&kept), &kept));
}

static void *prepare(void *whole)
{
	struct frame frame = {.code = &((struct whole *)whole)->code};
	uint64_t word;

	own_state.frame = &frame;
	(void)sosc_python_stack(&word, 1, &asker);
	return NULL;
}

// A child has no thread that would finish what another thread has begun.
static void check_child(void)
{
	static struct whole kept;
	pthread_t thread;
	int status;
	pid_t child;

	begin(&kept, 9);
	CHECK(!pthread_create(&thread, NULL, prepare, &kept));
	while (!__atomic_load_n(&is_asked, __ATOMIC_ACQUIRE))
		sched_yield();
	child = fork();
	CHECK(child >= 0);
	may_answer = 1;
	if (!child) {
		sosc_instruments_forked(sosc_quiet);
		CHECK(says(number_of(&kept), &kept));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!pthread_join(thread, NULL));
}

static void *turn(void *number)
{
	struct whole *codes = calloc(CODES, sizeof(*codes));

	for (uint32_t i = 0; i < CODES; i++)
		begin(&codes[i], 0);
	for (uint32_t i = 0; i < TURNS; i++) {
		struct whole *code = &codes[i % CODES];

		end(code);
		begin(code, (uint32_t)(uint64_t)number * TURNS + i + 10);
		for (uint32_t k = 0; k < CODES; k++) {
			uint32_t found = number_of(&codes[k]);

			CHECK(!found || says(found, &codes[k])); // 0: another one held a lock
		}
	}
	free(codes);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	code_type.dealloc = code_dealloc;
	(void)host_image(names, sizeof(names) / sizeof(*names));
	start_session();
	CHECK(code_type.dealloc != code_dealloc);
	check_child();
	check_that_others_stay();
	check_sessions();
	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, turn, (void *)i));
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	return 0;
}
