// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fexceptions
// Calls that end in a jump to another function's stub.
#include "leaf.h"

int jumps(int (*function)(int), int x);
int jumps_twice(int (*function)(int), int x);

__attribute__((optimize("O2"))) int jumps(int (*function)(int), int x)
{
	return fcall(function, x);
}

__attribute__((optimize("O2"))) int jumps_twice(int (*function)(int), int x)
{
	return jumps(function, x);
}
