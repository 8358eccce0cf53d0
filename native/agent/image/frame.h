// SPDX-License-Identifier: Apache-2.0
/**
 * Functions and where exceptions may enter them, by the unwind tables
 * (LSB, ".eh_frame"; Itanium C++ ABI, exception handling tables).
 */
#ifndef SOSC_FRAME_H
#define SOSC_FRAME_H

#include "base/agent.h"

struct sosc_loaded;

struct sosc_cfi { // instructions that say how to get from a frame to its caller's, or another table
	const uint8_t *at, *end;
};

struct sosc_frame {
	uint64_t start, end;
	struct sosc_cfi
		lsda; // its table of calls and landing pads, and all behind it; NULL: it has none
	struct sosc_cfi common, own; // of its CIE, which come first, and of its FDE
	uint64_t code_step; // factors of what they say
	int64_t data_step;
	uint64_t returns; // the column of the return address
};

/** The number at *@at, unsigned LEB128 (DWARF 5, 7.6). It is cut at @end, where its table ends. */
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

/** The number at *@at, signed LEB128, cut at @end. */
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
