// SPDX-License-Identifier: Apache-2.0
/**
 * Reading Python frames: directly from memory that cannot change, or as copies of memory that may
 * be freed meanwhile.
 */
#ifndef SOSC_PYTHONREADING_H
#define SOSC_PYTHONREADING_H

#include "stack/chain.h"
#include "soscope/objects.h"

#pragma GCC visibility push(hidden)

enum {
	READING_PART = 256, // most bytes of a struct that are read
	READING_WINDOW = 1024, // bytes of frames that are read at a time
};

struct sosc_reading {
	const struct sosc_python *at;
	// thread id for checked reads of memory that may be freed, 0 if the memory cannot change
	uint32_t tid;
	struct sosc_chain *chain; // where the words that were read are noted; or NULL
	struct sosc_window window; // at least READING_PART bytes
	_Alignas(uint64_t) uint8_t code[READING_PART]; // a copy
};

// pythonreading.c
uint32_t sosc_part_of_code(const struct sosc_python *at);
uint32_t sosc_part_of_text(const struct sosc_python *at);
uint64_t sosc_part_copy(const struct sosc_reading *reading, uint8_t *copy, uint64_t addr,
			uint32_t size);
uint64_t sosc_frame_copy(struct sosc_reading *reading, uint64_t frame);
bool sosc_read_word(const struct sosc_reading *reading, uint64_t addr, uint64_t *value);

/** Return an address at which a code object can be read, or 0 if there is none. */
static inline uint64_t sosc_code_at(struct sosc_reading *reading, uint64_t code)
{
	return reading->tid ? sosc_part_copy(reading, reading->code, code,
					     sosc_part_of_code(reading->at)) :
			      code;
}

/** The same for a frame. */
static inline uint64_t sosc_frame_at(struct sosc_reading *reading, uint64_t frame)
{
	return reading->tid ? sosc_frame_copy(reading, frame) : frame;
}

#pragma GCC visibility pop

#endif
