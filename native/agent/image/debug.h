// SPDX-License-Identifier: Apache-2.0
/** Tests whether an image has debug information. Only soscope reads what it contains. */
#ifndef SOSC_DEBUG_H
#define SOSC_DEBUG_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

enum sosc_described { // values of sosc_loaded.described
	SOSC_DESCRIBED_UNKNOWN = 0, // not checked yet
	SOSC_DESCRIBED_NO = 1,
	SOSC_DESCRIBED_MAYBE = 2,
};

bool sosc_may_be_described(struct sosc_loaded *image);

#pragma GCC visibility pop

#endif
