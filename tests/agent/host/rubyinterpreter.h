// SPDX-License-Identifier: Apache-2.0
/**
 * An interpreter of Ruby of a few lines, with the structs of 3.1: one thread with FRAMES frames, each of
 * other code, whose objects lie in pages of their own.
 */
#ifndef RUBYINTERPRETER_H
#define RUBYINTERPRETER_H

#include "host.h"

#include <string.h>

#include "objects/ruby/ruby.h"

enum {
	FRAMES = 40, // each third of them is C's
	WORDS = 1200, // of the stack
	FLAG_C = 0x80,
	FINISH = 0x20,
	SIZE = 1400, // words of code of each
	LINES_MAX = 300,
	NAME = 200,
	SHORT = 20, // bytes that lie inside of a string
	EMBEDDED = 1 << 13, // of an array
	ELSEWHERE = 1 << 13, // of a string
	ENTRY = 12, // bytes
	INDEX = 48 + 80 * 3,
	CODE = KIND_IMEMO | 7 << 12,
};

struct object {
	uint64_t flags, class, words[3];
};

struct body {
	uint32_t type, size;
	uint64_t *code;
	uint64_t unused[6];
	uint64_t path, base_label, label, more[4];
	uint8_t *lines;
	uint64_t *positions;
	uint32_t count;
	uint8_t *index;
};

struct frame {
	uint64_t *pc, *sp;
	struct object *code;
	uint64_t self, *environment, unused[3];
};

struct context {
	uint64_t *stack, size;
	struct frame *frame;
};

struct made { // of one code; each object in a page of its own
	struct object *code, *path, *first, *label;
	struct body *body;
	uint8_t *lines, *index;
	char name[NAME], file[NAME];
	uint32_t positions[LINES_MAX], numbers[LINES_MAX], count;
};

static struct made made[FRAMES];
static uint64_t *words; // code of all, one behind the other
static struct context *context;
static struct frame *innermost;
static uint64_t *stack;

_Thread_local struct context *own_context __attribute__((tls_model("local-exec")));
struct space {
	uint64_t limit, increase, flags, count;
} space;
struct {
	uint64_t unused[2];
	struct space *space;
} machine = {.space = &space};
void *machine_at = &machine;

static int holds, asked;
static sosc_value object_class = 8;
static char version[] = "3.1.2";

// As a compiler makes them: what is read of the interpreter's own variables is found in their code.
__asm__(".text\n"
	"profile_frames:\n"
	"	movq %fs:own_context@tpoff, %rax\n"
	"	jmp say_no_frames\n"
	"during_gc:\n"
	"	movq machine_at(%rip), %rax\n"
	"	movq 16(%rax), %rax\n"
	"	movzbl 16(%rax), %eax\n"
	"	shrb $5, %al\n"
	"	andl $1, %eax\n"
	"	ret\n");
int profile_frames(int start, int limit, sosc_value *frames, int *lines);
int during_gc(void);

__attribute__((used)) int say_no_frames(void)
{
	asked++;
	return 0;
}

static int native_thread(void)
{
	return 1;
}

static int thread_has_lock(void)
{
	return holds;
}

static size_t gc_count(void)
{
	return __atomic_load_n(&space.count, __ATOMIC_RELAXED);
}

// Nobody asks Ruby for anything that it has to read without the GVL.
static sosc_value never(void)
{
	CHECK(false);
	return 0;
}

static const struct host_symbol names[] = {
	{"rb_tracepoint_new", never},
	{"ruby_native_thread_p", native_thread},
	{"ruby_thread_has_gvl_p", thread_has_lock},
	{"rb_during_gc", during_gc},
	{"rb_profile_frames", profile_frames},
	{"rb_profile_frame_path", never},
	{"rb_profile_frame_label", never},
	{"rb_string_value_ptr", never},
	{"rb_iseq_line_no", never},
	{"rb_gc_count", gc_count},
	{"rb_cObject", &object_class},
	{"ruby_version", version},
};

// ---- what it has ---------------------------------------------------------------

static void make_text(struct object *object, const char *text)
{
	uint64_t size = strlen(text);

	*object = (struct object){KIND_STRING | size << 14, 1, {0}};
	if (size <= SHORT) {
		memcpy(object->words, text, size);
		return;
	}
	object->flags = KIND_STRING | ELSEWHERE;
	object->words[0] = size;
	object->words[1] = (uint64_t)memcpy(host_edge(size), text, size);
}

// The index of iseq.c, from where the entries begin.
static void make_index(struct made *of)
{
	memset(of->index, 0, INDEX);
	for (uint32_t place = 0; place < SIZE; place++) {
		uint64_t rank = 0, *at;
		uint32_t behind = place - 54, block = behind / 512, bit = behind % 512;
		bool begins = false;

		for (uint32_t i = 0; i < of->count; i++) {
			rank += of->positions[i] <= place;
			begins |= of->positions[i] == place;
		}
		if (place < 54) {
			at = (uint64_t *)of->index + place / 9;
			*at |= rank << place % 9 * 7;
			continue;
		}
		at = (uint64_t *)(of->index + 48 + 80 * block);
		if (!bit)
			*(uint32_t *)at = (uint32_t)(rank - begins);
		else if (bit % 64 == 0)
			at[1] |= (rank - begins - *(uint32_t *)at) << (bit / 64 - 1) * 9;
		at[2 + bit / 64] |= (uint64_t)begins << bit % 64;
	}
}

static uint32_t line_at(const struct made *of, uint32_t place)
{
	uint32_t line = 0;

	for (uint32_t i = 0; i < of->count && of->positions[i] <= place; i++)
		line = of->numbers[i];
	return line;
}

static void make_lines(struct made *of, uint32_t number)
{
	const uint32_t counts[] = {0, 1, 2, 30, LINES_MAX};

	of->count = counts[number % 5];
	for (uint32_t i = 0; i < of->count; i++) {
		of->positions[i] = i * (number % 3 + 1) * (of->count < 30 ? 20 : 1);
		of->numbers[i] = number * 1000 + i;
	}
	of->lines = host_edge(of->count ? of->count * ENTRY : 8);
	for (uint32_t i = 0; i < of->count; i++)
		memcpy(of->lines + i * ENTRY, &of->numbers[i], 4);
	of->index = host_edge(INDEX);
	make_index(of);
}

static void make_code(struct made *of, uint32_t number)
{
	snprintf(of->file, NAME, number % 4 ? "/a/long/path/to/files/%u.rb" : "/%u.rb", number);
	snprintf(of->name, NAME, number % 3 ? "m%u" : "block (2 levels) in a_long_method_%u",
		 number);
	make_lines(of, number);
	of->code = host_edge(sizeof(*of->code));
	of->path = host_edge(sizeof(*of->path));
	of->first = of->path;
	of->label = host_edge(sizeof(*of->label));
	of->body = host_edge(sizeof(*of->body));
	make_text(of->label, of->name);
	if (number % 3) {
		of->first = host_edge(sizeof(*of->first));
		*of->path = (struct object){KIND_ARRAY, 1, {2, 2, 0}};
		if (number % 3 == 1) {
			of->path->flags |= EMBEDDED;
			of->path->words[0] = (uint64_t)of->first;
		} else {
			of->path->words[2] = (uint64_t)memcpy(host_edge(8), &of->first, 8);
		}
	}
	make_text(of->first, of->file);
	*of->body = (struct body){
		.size = SIZE,
		.code = words + number * SIZE,
		.path = (uint64_t)of->path,
		.label = (uint64_t)of->label,
		.lines = of->lines,
		.count = of->count,
		.index = of->index,
	};
	*of->code = (struct object){CODE, 0, {(uint64_t)of->body}};
}

static bool is_ruby(int number)
{
	return number % 3 != 2;
}

static uint32_t place_of(int number)
{
	return (uint32_t)number * 997 % SIZE;
}

static void make_thread(void)
{
	static uint32_t count;

	for (int i = 0; i < FRAMES; i++) {
		struct frame *frame = &innermost[i];
		uint64_t *environment = stack + (FRAMES - i) * 7;

		make_code(&made[i], (uint32_t)i);
		*environment = is_ruby(i) ? (i % 4 ? 0 : FINISH) : FLAG_C;
		*frame = (struct frame){
			.pc = made[i].body->code + place_of(i),
			.code = is_ruby(i) ? made[i].code : NULL,
			.environment = environment,
			.self = ++count,
		};
	}
	*context = (struct context){stack, WORDS, innermost};
	own_context = context;
	space = (struct space){.count = 1};
}

static void make_interpreter(void)
{
	stack = host_edge(WORDS * sizeof(*stack));
	innermost = (struct frame *)(stack + WORDS) - FRAMES - 1;
	context = host_edge(sizeof(*context));
	words = calloc(FRAMES * SIZE, sizeof(*words));
	make_thread();
}

#endif
