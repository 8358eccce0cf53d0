// SPDX-License-Identifier: Apache-2.0
/**
 * Functions and the places where exceptions may enter them, read from the unwind tables (LSB,
 * ".eh_frame"; Itanium C++ ABI, exception handling tables).
 */
#ifndef SOSC_FRAME_H
#define SOSC_FRAME_H

#include "base/agent.h"

struct sosc_loaded;

struct sosc_cfi { // instructions for finding the caller's frame, or another table
	const uint8_t *at, *end;
};

struct sosc_frame {
	uint64_t start, end;
	struct sosc_cfi
		// the table of call sites and landing pads, up to the end of the segment; NULL:
		// none
		lsda;
	struct sosc_cfi common, own; // instructions of the CIE, which come first, and of the FDE
	uint64_t code_step; // factors of these instructions
	int64_t data_step;
	uint64_t returns; // column of the return address
};

/**
 * Read an unsigned LEB128 number at *@at (DWARF 5, 7.6). It is cut at @end, where its table ends.
 */
static inline uint64_t sosc_uleb(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 64 && *at < end; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	return value;
}

/** Read a signed LEB128 number at *@at, cut at @end. */
static inline int64_t sosc_sleb(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 64 && *at < end;) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (byte & 0x40 && shift < 64)
			value |= ~0ull << shift;
		break;
	}
	return (int64_t)value;
}

bool sosc_has_frames(const struct sosc_loaded *image);
bool sosc_frame_at(const struct sosc_loaded *image, uint64_t addr, struct sosc_frame *function);
bool sosc_landing_pad(const struct sosc_frame *function, uint64_t addr, uint64_t *pad);

#endif
