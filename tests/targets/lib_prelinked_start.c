// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-plt; ldflags=-fuse-ld=bfd -Wl,-Ttext-segment=0x3d000000000
// Linked to an address of its own, and loaded with the program.
#include "leaf.h"
#include "truth.h"

int started(int times);

int started(int times)
{
	int x = 0;
	for (int i = 0; i < times; i++)
		x = f2(x);
	truth_calls("f2", times);
	return x;
}
