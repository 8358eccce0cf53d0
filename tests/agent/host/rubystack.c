// SPDX-License-Identifier: Apache-2.0
// Frames of Ruby in stacks, with an interpreter of a few lines: sound frames are told right up to the
// last word in front of memory that is gone, and damaged ones end the walk. Structs that Ruby does not
// confirm are read from no memory that is gone.
#include "host.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/image.h"
#include "base/instrument.h"
#include "objects/ruby/ruby.h"
#include "vm/rubystack.h"
#include "stack/walk.h"
#include "soscope/blocks.h"
#include "thread/thread.h"

enum {
	FRAMES = 6,
	WORDS = 96, // of the stack
	ROOM = 16,
	IMEMO_CODE = KIND_IMEMO | 7 << 12,
	IMEMO_OTHER = KIND_IMEMO | 6 << 12,
	FINISH = 0x20,
	FLAG_C = 0x80,
	SIZE = 10, // words of code of each
};

// ---- the interpreter -----------------------------------------------------------

struct string {
	uint64_t flags, class;
	const char *text;
};

struct body {
	uint32_t type, size;
	uint64_t *code;
};

struct code {
	uint64_t flags, wrapper;
	struct body *body;
};

struct frame {
	uint64_t *pc, *sp;
	struct code *code;
	uint64_t self;
	uint64_t *environment;
	uint64_t unused[2];
};

struct context {
	uint64_t *stack, size;
	struct frame *frame;
};

struct whole { // code, and all that belongs to it
	struct code code;
	struct body body;
	struct string label;
	uint64_t words[SIZE];
};

static struct string path = {KIND_STRING, 0, "/a/file.rb"};
static struct whole codes[FRAMES];
static struct context *context;
static const uint64_t *context_now;
static struct frame *innermost;
static uint64_t *environments;
static void *gone; // memory that cannot be read

static int is_thread = 1, has_lock = 1, collects, asked;
static sosc_value object_class = 8;
static char version[] = "2.7.8";

static int waits, is_waiting;

static int native_thread(void)
{
	__atomic_store_n(&is_waiting, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
		sched_yield();
	return is_thread;
}

static int thread_has_lock(void)
{
	return has_lock;
}

static int during_gc(void)
{
	return collects;
}

static unsigned line_no(struct code *code, size_t at)
{
	struct whole *whole = (struct whole *)code;

	CHECK(whole >= codes && whole < codes + FRAMES); // Ruby would read anything else, too
	return (unsigned)((whole - codes) * 100 + (long)at);
}

// Ruby knows its own frames, whatever stands in the words that are walked here.
static int profile_frames(int start, int limit, sosc_value *frames, int *lines)
{
	int count = 0;

	CHECK(!start && limit >= FRAMES);
	asked++;
	for (int i = 0; i < FRAMES; i++) {
		if (i == 2)
			continue; // C has no code
		frames[count] = (sosc_value)&codes[i].code;
		lines[count++] = i * 100 + i;
	}
	return count;
}

static sosc_value frame_path(sosc_value frame)
{
	CHECK(frame >= (sosc_value)codes && frame < (sosc_value)(codes + FRAMES));
	return (sosc_value)&path;
}

static sosc_value frame_label(sosc_value frame)
{
	return (sosc_value) & ((struct whole *)frame)->label;
}

static const char *string_ptr(volatile sosc_value *string)
{
	return ((const struct string *)*string)->text;
}

static const struct host_symbol names[] = {
	{"rb_tracepoint_new", native_thread}, // by its name alone
	{"ruby_native_thread_p", native_thread},
	{"ruby_thread_has_gvl_p", thread_has_lock},
	{"rb_during_gc", during_gc},
	{"rb_profile_frames", profile_frames},
	{"rb_profile_frame_path", frame_path},
	{"rb_profile_frame_label", frame_label},
	{"rb_string_value_ptr", string_ptr},
	{"rb_iseq_line_no", line_no},
	{"rb_cObject", &object_class},
	{"ruby_version", version},
	{"ruby_current_execution_context_ptr", &context_now},
};

// All as it should be: the last frame is none, and memory ends right behind it.
static void make_frames(void)
{
	for (int i = 0; i < FRAMES; i++) {
		struct frame *frame = &innermost[i];

		codes[i] = (struct whole){
			.code = {IMEMO_CODE, 0, &codes[i].body},
			.body = {0, SIZE, codes[i].words},
			.label = codes[i].label,
		};
		environments[i] = i == FRAMES - 1 ? FINISH : 0;
		*frame = (struct frame){
			.pc = codes[i].words + i + 1,
			.code = &codes[i].code,
			.environment = &environments[i],
		};
	}
	environments[2] = FLAG_C;
	*context = (struct context){
		.stack = (uint64_t *)(innermost + FRAMES + 1) - WORDS,
		.size = WORDS,
		.frame = innermost,
	};
	context_now = (const uint64_t *)context;
}

static void make_interpreter(void)
{
	static const char *const labels[FRAMES] = {"a", "b", "c", "d", "e", "<main>"};
	uint64_t *stack = host_edge(WORDS * sizeof(*stack));

	innermost = (struct frame *)(stack + WORDS) - FRAMES - 1;
	environments = host_edge(FRAMES * sizeof(*environments));
	context = host_edge(sizeof(*context));
	gone = (uint8_t *)(context + 1) + 64;
	for (int i = 0; i < FRAMES; i++)
		codes[i].label = (struct string){KIND_STRING, 0, labels[i]};
	make_frames();
}

// ---- what is told --------------------------------------------------------------

static uint64_t told[ROOM];
static struct sosc_blocks *own;
static struct sosc_thread asker, sealed = {.sealed = 1};

static uint32_t count_of(uint32_t room)
{
	memset(told, 0, sizeof(told));
	asker.tid = (uint32_t)gettid(); // a child's is another one
	return sosc_ruby_stack(told, room, &asker);
}

static bool is_told(uint64_t word, int number)
{
	const struct sosc_code *code = sosc_stack_code_at((uint32_t)word);
	const char *label = codes[number].label.text, *file = (const char *)(code + 1);

	return word >> SOSC_FRAME_PYTHON & 1 &&
	       (word >> SOSC_FRAME_ENTRY & 1) == (number == FRAMES - 1) &&
	       (word >> SOSC_FRAME_INSTR & 0xffff) == (uint64_t)number * 101 && code &&
	       code->file_size == strlen(path.text) && code->name_size == strlen(label) &&
	       !memcmp(file, path.text, code->file_size) &&
	       !memcmp(file + code->file_size, label, code->name_size);
}

static void check_sound(uint32_t room)
{
	uint32_t count = count_of(room);

	CHECK(count == (room < FRAMES - 1 ? room : FRAMES - 1));
	for (uint32_t i = 0; i < count; i++)
		CHECK(is_told(told[i], i < 2 ? (int)i : (int)i + 1));
}

static void start(void)
{
	own = host_stacks(NULL);
	sosc_ruby_stacks_see(&sosc_loaded[0]);
	CHECK(sosc_languages[SOSC_LANGUAGE_RUBY].is_there);
	make_frames();
	asked = 0;
}

static void check_unprepared(void)
{
	start();
	CHECK(!sosc_ruby_stack(told, ROOM, &sealed) && !asked); // nothing may be prepared then
	object_class = 0;
	CHECK(!count_of(ROOM) && sosc_languages[SOSC_LANGUAGE_RUBY].is_there); // it has not begun
	object_class = 8;
	is_thread = 0;
	CHECK(!count_of(ROOM) &&
	      sosc_languages[SOSC_LANGUAGE_RUBY].is_there); // not a thread of its
	is_thread = 1;
	version[0] = '9';
	CHECK(!count_of(ROOM) && !sosc_languages[SOSC_LANGUAGE_RUBY].is_there &&
	      own->ruby == SOSC_RUBY_NO_LAYOUT);
	version[0] = '2';
	start();
	has_lock = 0;
	CHECK(!count_of(ROOM) && !asked);
	has_lock = 1;
	CHECK(!sosc_ruby_stack(told, ROOM, &sealed) && !asked); // it is ready, but not sure
	collects = 1;
	CHECK(!count_of(ROOM) && !asked);
	collects = 0;
	check_sound(ROOM);
	CHECK(asked == 1 && sosc_ruby_stack(told, ROOM, &sealed) == FRAMES - 1);
	sosc_ruby_stacks_forget(&sosc_loaded[0]);
	CHECK(!sosc_languages[SOSC_LANGUAGE_RUBY].is_there && !count_of(ROOM));
}

// A word that says where frames lie is wrong.
static void check_bounds(void)
{
	const struct context right = *context;
	const struct context wrong[] = {
		{NULL, right.size, right.frame},
		{right.stack, 0, right.frame},
		{right.stack, 1ull << 61, right.frame},
		{right.stack, UINT64_MAX, right.frame},
		{right.stack, right.size, NULL},
		{right.stack, right.size, (struct frame *)right.stack - 1},
		{right.stack, right.size, innermost + FRAMES + 1},
		{right.stack, right.size, (struct frame *)((uint8_t *)innermost + 8)},
		{right.stack, right.size, gone},
		{(uint64_t *)8, 0, innermost}, // its end lies in front of all memory
		{(uint64_t *)-1024, right.size * 8, gone},
		{(uint64_t *)((uint8_t *)right.stack + 4), right.size, innermost},
	};

	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		*context = wrong[i];
		CHECK(!count_of(ROOM));
	}
	context_now = NULL;
	CHECK(!count_of(ROOM));
	make_frames();
	context->frame = innermost + FRAMES; // the one that is none
	CHECK(!count_of(ROOM));
	make_frames();
}

// A frame that is none ends the walk; what lies in front of it stays.
static void check_frames(void)
{
	uint64_t other = IMEMO_OTHER;

	innermost[3].environment = NULL;
	CHECK(count_of(ROOM) == 2 && is_told(told[0], 0) && is_told(told[1], 1));
	make_frames();
	innermost[0].environment = (uint64_t *)((uint8_t *)environments + 4);
	CHECK(!count_of(ROOM));
	make_frames();
	innermost[1].code = (struct code *)&other;
	CHECK(count_of(ROOM) == 1);
	innermost[1].code = (struct code *)0x14; // a number, as Ruby has them
	CHECK(count_of(ROOM) == 1);
	innermost[1].code = NULL;
	CHECK(count_of(ROOM) == 1);
	make_frames();
	innermost[1].pc = NULL; // it has not begun
	CHECK(count_of(ROOM) == 4 && is_told(told[1], 3));
	make_frames();
	innermost[1].pc = gone; // and this has no line
	CHECK(count_of(ROOM) == 5 && !(told[1] >> SOSC_FRAME_INSTR & 0xffff));
	make_frames();
	check_sound(ROOM);
}

// Of a struct whose places are others, any word may be anything.
static void check_unsure(void)
{
	uint64_t *const words[] = {
		(uint64_t *)&innermost[1].environment,
		(uint64_t *)&innermost[1].code,
		(uint64_t *)&codes[1].code.body,
		(uint64_t *)&codes[1].body.code,
		(uint64_t *)&context_now,
	};

	for (uint32_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		start();
		*words[i] = (uint64_t)gone;
		CHECK(!count_of(ROOM) && !sosc_languages[SOSC_LANGUAGE_RUBY].is_there &&
		      own->ruby == SOSC_RUBY_WRONG);
	}
	start();
	*context = (struct context){(uint64_t *)((struct frame *)gone - 2), 7 * 8, gone};
	CHECK(!count_of(ROOM) && !sosc_languages[SOSC_LANGUAGE_RUBY].is_there &&
	      own->ruby == SOSC_RUBY_WRONG);
	start();
	innermost[0].environment = gone; // Ruby is not asked where nothing was found
	CHECK(!count_of(ROOM) && !sosc_languages[SOSC_LANGUAGE_RUBY].is_there && !asked);
	start();
	innermost[4].code = &codes[3].code;
	CHECK(!count_of(ROOM) && own->ruby == SOSC_RUBY_WRONG && asked == 1);
}

static void *prepare(void *unused)
{
	CHECK(!sosc_ruby_stack(told, 0, &asker));
	return unused;
}

// Nobody in a child finishes what another thread has begun.
static void check_child(void)
{
	pthread_t thread;
	int status;
	pid_t child;

	start();
	is_waiting = 0;
	waits = 1;
	CHECK(!pthread_create(&thread, NULL, prepare, NULL));
	while (!__atomic_load_n(&is_waiting, __ATOMIC_ACQUIRE))
		sched_yield();
	CHECK(!count_of(ROOM)); // only one gets ready
	child = fork();
	CHECK(child >= 0);
	__atomic_store_n(&waits, 0, __ATOMIC_RELEASE);
	if (!child) {
		CHECK(!count_of(ROOM));
		sosc_instruments_forked(sosc_quiet);
		check_sound(ROOM);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!pthread_join(thread, NULL));
	check_sound(ROOM);
}

int main(void)
{
	host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	(void)host_image(names, sizeof(names) / sizeof(*names));
	make_interpreter();
	check_unprepared();
	start();
	for (uint32_t room = 0; room < ROOM; room++)
		check_sound(room);
	CHECK(asked == 1);
	check_bounds();
	check_frames();
	check_unsure();
	check_child();
	return 0;
}
