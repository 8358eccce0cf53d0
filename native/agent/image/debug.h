// SPDX-License-Identifier: Apache-2.0
/**
 * Whether an image has debug information: what it says is soscope's to read.
 */
#ifndef SOSC_DEBUG_H
#define SOSC_DEBUG_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

enum sosc_described { // sosc_loaded.described
	SOSC_DESCRIBED_UNKNOWN = 0, // nobody has looked
	SOSC_DESCRIBED_NO = 1,
	SOSC_DESCRIBED_MAYBE = 2,
};

bool sosc_may_be_described(struct sosc_loaded *image);

#pragma GCC visibility pop

#endif
