// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Exceptions in a namespace of its own: its own unwinder finds its way through hooked frames.
#include "leaf.h"
#include "space.h"
#include "truth.h"

#include <string>

COUNTED(f0);
COUNTED(fcall);

static int thrower(int x)
{
	throw std::to_string(CALL(f0, x));
}

int space_throw(int times)
{
	int caught = 0;
	for (int i = 0; i < times; i++) {
		try {
			CALL(fcall, thrower, i);
		} catch (const std::string &text) {
			caught += text == std::to_string(i + 1);
		}
	}
	return caught;
}

void space_report(void)
{
	REPORT(f0);
	REPORT(fcall);
	RESET(f0);
	RESET(fcall);
}
