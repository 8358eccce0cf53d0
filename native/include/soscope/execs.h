// SPDX-License-Identifier: Apache-2.0
/**
 * Programs that children execute which nobody follows: what they say of these, in a page of a file
 * of its own. A child leaves the block, and keeps this. The child may go on with other rights, so
 * nobody but soscope believes what stands here, and soscope only shows it. Part of wire.h.
 */
#ifndef SOSCOPE_EXECS_H
#define SOSCOPE_EXECS_H

#include <stdint.h>

enum {
	SOSC_EXEC_NAMES = 63,
};

enum sosc_exec_state {
	SOSC_EXEC_FREE = 0,
	SOSC_EXEC_TAKEN = 1, // its name is being written
	SOSC_EXEC_NAMED = 2,
};

// A name under which programs were executed: the last part of the file's path.
struct sosc_exec {
	uint32_t programs; // how many; an exec that fails takes its own one back
	uint32_t state; // enum sosc_exec_state
	char name[56]; // NUL-terminated, cut
};

struct sosc_execs { // the page
	uint64_t programs; // how many in all
	uint64_t reserved[7];
	struct sosc_exec names[SOSC_EXEC_NAMES];
};

#endif
