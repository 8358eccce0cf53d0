// SPDX-License-Identifier: Apache-2.0
// Functions that do next to nothing: what a call costs is the tracer's.
#include "leaf.h"

long bench_leaf(long a)
{
	return a + 1;
}

long bench_six(long a, long b, long c, long d, long e, long f)
{
	return a + b + c + d + e + f;
}
