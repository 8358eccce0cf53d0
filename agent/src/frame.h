// SPDX-License-Identifier: Apache-2.0
/**
 * Functions and where exceptions may enter them, by the unwind tables
 * (LSB, ".eh_frame"; Itanium C++ ABI, exception handling tables).
 */
#ifndef SOSC_FRAME_H
#define SOSC_FRAME_H

#include "agent.h"

struct sosc_loaded;

struct sosc_frame {
	uint64_t start, end;
	const uint8_t *lsda; // its table of calls and landing pads, NULL: it has none
};

bool sosc_has_frames(const struct sosc_loaded *image);
bool sosc_frame_at(const struct sosc_loaded *image, uint64_t addr, struct sosc_frame *function);
bool sosc_landing_pad(const struct sosc_frame *function, uint64_t addr, uint64_t *pad);

#endif
