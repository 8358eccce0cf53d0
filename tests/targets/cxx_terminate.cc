// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; status=9
// An exception that meets noexcept under a hooked call: the handler runs and
// ends the program.
#include "leaf.h"
#include "truth.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

COUNTED(f0);
COUNTED(fcall);

static int throws(int x)
{
	throw x;
}

static int never(int x) noexcept
{
	return CALL(fcall, throws, x);
}

int main()
{
	std::set_terminate([] {
		CALL(f0, 1);
		int value = 0;
		try {
			throw;
		} catch (int x) {
			value = x;
		}
		REPORT(f0);
		REPORT(fcall);
		std::printf("terminate %d\n", value);
		std::fflush(stdout);
		std::_Exit(9);
	});
	CALL(fcall, never, 42);
}
