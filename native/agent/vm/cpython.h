// SPDX-License-Identifier: Apache-2.0
/**
 * CPython's internals: frames and code objects, by the table of a version's offsets
 * (soscope/objects.h).
 */
#ifndef SOSC_CPYTHON_H
#define SOSC_CPYTHON_H

#include "vm/origin.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

bool sosc_python_is_in(const struct sosc_loaded *image);
bool sosc_python_is_free_threaded(const char *version);
const struct sosc_python *sosc_python_known(const char *version, const struct sosc_python *layouts,
					    uint32_t count);
struct sosc_code_texts sosc_python_texts(const struct sosc_python *at,
					 const struct sosc_origin *code);

#pragma GCC visibility pop

static inline uint64_t sosc_word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

/**
 * Return the offset of a frame in its code, whose field has the value @instr. See
 * sosc_python_instr.
 */
static inline int32_t sosc_python_instr_of(const struct sosc_python *at, uint64_t instr,
					   uint64_t code)
{
	switch (at->instr_kind) {
	case SOSC_INSTR_POINTER:
		return (int32_t)(instr - code - at->code_bytes);
	case SOSC_INSTR_UNITS:
		return (int32_t)instr * 2;
	default:
		return (int32_t)instr;
	}
}

/**
 * Return the newest frame of a thread that holds the GIL, or 0 if it has none. The frame may be a
 * shim.
 */
static inline uint64_t sosc_python_newest(const struct sosc_python *at, uint64_t thread_state)
{
	uint64_t frame = sosc_word_at(thread_state + at->state_frame);

	return frame && at->inner_frame != SOSC_NONE ? sosc_word_at(frame + at->inner_frame) :
						       frame;
}

/** Return whether a frame has no code. */
static inline bool sosc_python_is_shim(const struct sosc_python *at, uint64_t frame)
{
	return at->frame_owner != SOSC_NONE &&
	       *(const uint8_t *)(frame + at->frame_owner) >= at->shim;
}

/**
 * Return the offset of a frame in its code, in bytes from the first instruction; negative before
 * it.
 */
static inline int32_t sosc_python_instr(const struct sosc_python *at, uint64_t frame, uint64_t code)
{
	uint64_t instr = sosc_word_at(frame + at->frame_instr);

	return sosc_python_instr_of(
		at, at->instr_kind == SOSC_INSTR_POINTER ? instr : (uint32_t)instr, code);
}

/** Return the fields that distinguish a code object from a later one at its address. */
static inline struct sosc_origin sosc_python_code(const struct sosc_python *at, uint64_t code)
{
	return (struct sosc_origin){
		.code = code,
		.file = sosc_word_at(code + at->code_file),
		.name = sosc_word_at(code + at->code_name),
		.lines = sosc_word_at(code + at->code_lines),
		.first_line = *(const uint32_t *)(code + at->code_first_line),
	};
}

#endif
