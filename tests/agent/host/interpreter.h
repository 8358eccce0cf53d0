// SPDX-License-Identifier: Apache-2.0
// A Python of a few lines: what the tests of those that read its frames share.
#ifndef INTERPRETER_H
#define INTERPRETER_H

#include "host.h"

#include "base/arch.h"
#include "image/image.h"
#include "vm/origin.h"
#include "vm/pythonstack.h"
#include "stack/walk.h"
#include "soscope/blocks.h"
#include "soscope/objects.h"

#include <stddef.h>
#include <string.h>

enum { NAME_SIZE = 12 };

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

static void *thread_state(void)
{
	own_state.thread = sosc_thread_pointer();
	return &own_state;
}

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

static bool says(uint32_t number, const struct whole *whole)
{
	const struct sosc_code *code = sosc_stack_code_at(number);

	return code && code->name_size == whole->name.size &&
	       !memcmp((const char *)(code + 1) + code->file_size, whole->name.data,
		       code->name_size);
}

#endif
