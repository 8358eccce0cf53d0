// SPDX-License-Identifier: Apache-2.0
// The numbers that frames of Python name their code by, with an interpreter of a few lines: a number
// is made once, and is true until its own code object ends, whatever else ends, in whichever thread.
#include "host.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch.h"
#include "image.h"
#include "instrument.h"
#include "mem/origin.h"
#include "mem/pythonstack.h"
#include "mem/walk.h"
#include "soscope/blocks.h"
#include "soscope/objects.h"

enum { THREADS = 8, TURNS = 400, CODES = 4, NAME_SIZE = 12 };

struct text {
	uint64_t head[2], size;
	uint32_t state, unused;
	char data[NAME_SIZE + 4];
};

struct lines {
	uint64_t head[2], size;
	char data[8];
};

struct code {
	uint64_t count, type;
	struct text *file, *name;
	uint64_t first_line;
	struct lines *lines;
};

struct frame {
	struct code *code;
	struct frame *previous;
	uint64_t instr;
};

struct state {
	uint64_t thread;
	struct frame *frame;
};

static const struct sosc_python layout = {
	.minor = 9,
	.state_thread = offsetof(struct state, thread),
	.state_frame = offsetof(struct state, frame),
	.inner_frame = SOSC_NONE,
	.frame_code = offsetof(struct frame, code),
	.frame_previous = offsetof(struct frame, previous),
	.frame_instr = offsetof(struct frame, instr),
	.instr_kind = SOSC_INSTR_BYTES,
	.frame_owner = SOSC_NONE,
	.frame_entry = SOSC_NONE,
	.code_file = offsetof(struct code, file),
	.code_name = offsetof(struct code, name),
	.code_first_line = offsetof(struct code, first_line),
	.code_lines = offsetof(struct code, lines),
	.text_length = offsetof(struct text, size),
	.text_state = offsetof(struct text, state),
	.text_ascii = offsetof(struct text, data),
	.bytes_data = offsetof(struct lines, data),
};

// ---- the interpreter -----------------------------------------------------------

static struct {
	uint64_t before[6];
	void (*dealloc)(void *code);
} code_type;

static __thread struct state own_state;
static int ended;

static void code_dealloc(void *code)
{
	(void)code;
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
}

static int is_initialized(void)
{
	return 1;
}

static int is_asked, may_answer;

static const char *version(void)
{
	__atomic_store_n(&is_asked, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&may_answer, __ATOMIC_ACQUIRE))
		sched_yield();
	return "3.9.2 (a few lines)";
}

static void *thread_state(void)
{
	own_state.thread = sosc_thread_pointer();
	return &own_state;
}

static const struct host_symbol names[] = {
	{"Py_IsInitialized", is_initialized},
	{"PyList_New", code_dealloc}, // by its name alone
	{"PyCode_Type", &code_type},
	{"Py_GetVersion", version},
	{"PyGILState_GetThisThreadState", thread_state},
	{"_PyThreadState_UncheckedGet", thread_state},
};

// ---- its code ----------------------------------------------------------------------

struct whole {
	struct code code;
	struct text name;
};

static struct text file = {.size = 4, .state = (1 | 1 << 3 | 1 << 4) << 2, .data = "file"};
static struct lines lines = {.size = 4, .data = "1234"};

static void begin(struct whole *whole, uint32_t number)
{
	whole->name.state = file.state;
	whole->name.size = (uint64_t)sprintf(whole->name.data, "name%u", number);
	whole->code = (struct code){
		.type = (uint64_t)&code_type,
		.file = &file,
		.name = &whole->name,
		.first_line = 7,
		.lines = &lines,
	};
}

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
	CHECK(sosc_python_stack(&word, 1, false, 0) == 1);
	return (uint32_t)word;
}

static bool says(uint32_t number, const struct whole *whole)
{
	const struct sosc_code *code = sosc_stack_code_at(number);

	return code && code->name_size == whole->name.size &&
	       !memcmp((const char *)(code + 1) + code->file_size, whole->name.data,
		       code->name_size);
}

// ---- checks ------------------------------------------------------------------------

static void start_session(void)
{
	(void)host_stacks(&layout);
	sosc_python_stacks_see(&sosc_loaded[0]);
	CHECK(sosc_python_stacks);
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
	(void)sosc_python_stack(&word, 1, false, 0);
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
		sosc_instruments_forked();
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
