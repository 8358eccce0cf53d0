// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf,jumps; select=fcall,jumps,jumps_twice
// Exceptions that leave functions which others have jumped to, from each other: one return
// address has a return trampoline for each of them.
#include "truth.h"

#include "leaf.h"

#include <cstdio>

extern "C" int jumps(int (*function)(int), int x);
extern "C" int jumps_twice(int (*function)(int), int x);

COUNTED(fcall);
COUNTED(jumps);
COUNTED(jumps_twice);

static long destroyed;

struct Guard {
	~Guard()
	{
		destroyed++;
	}
};

static int throws(int x)
{
	Guard guard;
	throw x;
}

template <typename Function> static int caught(Function call, int x)
{
	try {
		Guard guard;
		return call(throws, x);
	} catch (int value) {
		return value;
	}
}

static int counted_jumps(int (*function)(int), int x)
{
	calls_of_fcall++;
	return CALL(jumps, function, x);
}

static int counted_twice(int (*function)(int), int x)
{
	calls_of_fcall++;
	calls_of_jumps++;
	return CALL(jumps_twice, function, x);
}

int main()
{
	long sum = 0;
	for (int i = 0; i < 1000; i++)
		sum += caught(counted_jumps, i) + caught(counted_twice, i);
	REPORT(fcall);
	REPORT(jumps);
	REPORT(jumps_twice);
	std::printf("tail %ld %ld\n", sum, destroyed);
}
