// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-static-libgcc -static-libstdc++
// The unwinder is linked into the program: it asks for unwind tables through the
// program's own slots.
#include "leaf.h"
#include "truth.h"

#include <cstdio>

COUNTED(f0);
COUNTED(fcall);

static int throws(int x)
{
	throw CALL(f0, x);
}

static int nest(int depth)
{
	return depth ? CALL(fcall, nest, depth - 1) : throws(depth);
}

int main()
{
	long sum = 0;
	for (int i = 0; i < 500; i++)
		try {
			CALL(fcall, nest, i % 20);
		} catch (int x) {
			sum += x + i;
		}
	REPORT(f0);
	REPORT(fcall);
	std::printf("static %ld\n", sum);
}
