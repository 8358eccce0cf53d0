// SPDX-License-Identifier: Apache-2.0
/**
 * Programs that children execute while no soscope follows them: a page of a memory file of its own,
 * in which they are counted. A child that is not followed drops the control block and keeps this
 * page. The child may go on with other privileges and can write anything here, so only soscope uses
 * the contents, and only to print them. Part of wire.h.
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
	uint32_t programs; // how many; an exec that fails subtracts itself again
	uint32_t state; // enum sosc_exec_state
	char name[56]; // NUL-terminated, shortened to fit
};

struct sosc_execs { // the page
	uint64_t programs; // how many, over all names
	uint64_t reserved[7];
	struct sosc_exec names[SOSC_EXEC_NAMES];
};

#endif
