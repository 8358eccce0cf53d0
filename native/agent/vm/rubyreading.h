// SPDX-License-Identifier: Apache-2.0
/** Reading what Ruby frames refer to while another thread may move or free it. */
#ifndef SOSC_RUBYREADING_H
#define SOSC_RUBYREADING_H

#include "stack/chain.h"
#include "vm/cruby.h"
#include "soscope/blocks.h"

#pragma GCC visibility push(hidden)

enum {
	RUBY_FRAME_CODE = 16, // in a control frame: offset in bytes
	RUBY_CODE_BODY = 16, // in an instruction sequence: offset of its body
	RUBY_BODY_SIZE = 32, // in a body: position of its size in its first word, in bits
	RUBY_BODY_CODE = 8, // in a body: offset in bytes
	RUBY_TEXT_MAX = 1536, // most bytes of a path, or a label
	RUBY_WINDOW = 1024, // bytes of a thread's stack that are read at a time
};

// Offsets in the structs of a version.
struct sosc_ruby_layout {
	uint16_t version;
	uint16_t frame; // bytes of a control frame
	uint16_t lines; // in a body: offset of the description of its line table, 0 if unknown
	uint16_t line; // bytes of an entry of the line table
	bool has_long_texts; // a string has its length in front of its text, not in its flags
};

// How to ask an interpreter, and where to find what it does not tell.
struct sosc_ruby_way {
	int (*ruby_native_thread_p)(void);
	int (*ruby_thread_has_gvl_p)(void);
	int (*rb_during_gc)(void);
	int (*rb_profile_frames)(int start, int limit, sosc_value *frames, int *lines);
	sosc_value (*rb_profile_frame_path)(sosc_value frame);
	sosc_value (*rb_profile_frame_label)(sosc_value frame);
	const char *(*rb_string_value_ptr)(volatile sosc_value *string);
	unsigned (*rb_iseq_line_no)(sosc_value code, size_t at);
	const sosc_value *rb_cObject;
	const char *ruby_version;
	// context of the thread that holds the GVL; up to 2.7
	const uint64_t *ruby_current_execution_context_ptr;
	int64_t context; // later versions: offset of the context from the thread pointer
	const struct sosc_ruby_layout *at;
	size_t (*rb_gc_count)(void);
	const uint8_t *collector; // the state of the collector, NULL if unknown
};

struct sosc_ruby_text {
	const char *data; // RUBY_TEXT_MAX bytes of it, or less and a NUL
	uint32_t size;
};

struct sosc_ruby_reading {
	const struct sosc_ruby_layout *at;
	struct sosc_chain *chain; // provides the memory for all copies
	uint32_t tid;
	struct sosc_window frames, values; // windows on the thread's stack
	uint32_t parts,
		objects; // number of parts of a code object; bit set of those that are objects
	uint32_t size; // bytes of all parts
	struct sosc_ruby_text path, label;
	uint32_t line;
};

// rubycontext.c
bool sosc_ruby_find_way(struct sosc_ruby_way *way, const struct sosc_loaded *image, uint32_t tid,
			enum sosc_ruby_frames *why);

// rubyreading.c
void sosc_ruby_reading_begin(struct sosc_ruby_reading *reading, const struct sosc_ruby_layout *at,
			     struct sosc_chain *chain, uint32_t tid);
bool sosc_ruby_reading_code(struct sosc_ruby_reading *reading, uint64_t frame, uint64_t pc);
void *sosc_ruby_reading_room(const struct sosc_ruby_reading *reading);

#pragma GCC visibility pop

#endif
