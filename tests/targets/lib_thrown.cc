// SPDX-License-Identifier: Apache-2.0
// Calls that are left by exceptions, and destructors that run meanwhile.
#include "thrown.h"

#include <stdexcept>

#define ALONE __attribute__((noinline))

namespace {

struct Counts {
	unsigned long thrower, catcher, passes, destroyed;
} counts;

struct Guard {
	ALONE ~Guard()
	{
		counts.destroyed++;
	}
};

} // namespace

extern "C" ALONE int thrower(int n)
{
	counts.thrower++;
	Guard guard;
	if (n % 3 == 0)
		throw std::runtime_error("thrown");
	return n + 1;
}

extern "C" ALONE int passes(int depth, int n)
{
	counts.passes++;
	Guard guard;
	int below = depth ? passes(depth - 1, n) : thrower(n);
	return below / (1 + below % 5);
}

extern "C" ALONE int catcher(int n)
{
	counts.catcher++;
	try {
		return passes(n % 8, n);
	} catch (const std::runtime_error &) {
		return -n;
	}
}

extern "C" const unsigned long *thrown_counts()
{
	return &counts.thrower;
}
