// SPDX-License-Identifier: Apache-2.0
/**
 * What frames of Ruby lead to while another thread may move it, or give it away.
 */
#ifndef SOSC_RUBYREADING_H
#define SOSC_RUBYREADING_H

#include "stack/chain.h"
#include "vm/cruby.h"
#include "soscope/blocks.h"

#pragma GCC visibility push(hidden)

enum {
	RUBY_FRAME_CODE = 16, // of a control frame: bytes
	RUBY_CODE_BODY = 16, // of an instruction sequence
	RUBY_BODY_SIZE = 32, // of its body: bits in the first word in front of it
	RUBY_BODY_CODE = 8, // bytes
	RUBY_TEXT_MAX = 1536, // bytes of a path, or a label
	RUBY_WINDOW = 1024, // bytes of a thread's stack that are read at once
};

// Where the structs of a version have what is read of them.
struct sosc_ruby_layout {
	uint16_t version;
	uint16_t frame; // bytes of a control frame
	uint16_t lines; // of a body: where it says of its table of lines; 0: that is not known
	uint16_t line; // bytes of an entry of that
	bool has_long_texts; // a string has its length in front of its text, and not in its flags
};

// How an interpreter is asked, and where it has what it does not tell.
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
	const uint64_t *ruby_current_execution_context_ptr; // of who holds the GVL; up to 2.7
	int64_t context; // later: where it is, from the thread pointer
	const struct sosc_ruby_layout *at;
	size_t (*rb_gc_count)(void);
	const uint8_t *collector; // how it stands; NULL: that is not known
};

struct sosc_ruby_text {
	const char *data; // RUBY_TEXT_MAX bytes of it, or an end
	uint32_t size;
};

struct sosc_ruby_reading {
	const struct sosc_ruby_layout *at;
	struct sosc_chain *chain; // has the memory for all copies
	uint32_t tid;
	struct sosc_window frames, values; // of the thread's stack
	uint32_t parts,
		objects; // how many there are of a code, and bits: which of them are objects
	uint32_t size; // of all parts
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
