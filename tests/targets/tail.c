// SPDX-License-Identifier: Apache-2.0
// target: libs=tail; ldflags=-Wl,--export-dynamic; runs=50000; soak=1000000
// Tail calls through slots: gping and gpong jump to each other, so many times on one frame, and
// one short chain that ends in an ordinary call.
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>

long gping(long left, long sum); // here: jumps to gpong
long gpong(long left, long sum); // in libtail: jumps to gping

__attribute__((noinline, optimize("O2"))) long gping(long left, long sum)
{
	if (left == 0)
		return sum;
	return gpong(left - 1, sum + left);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1000000; // even
	long sum = 0, pings = 0, pongs = 0;
	for (int i = 0; i < 20; i++) {
		sum += gpong(3, i); // gping(2), gpong(1), gping(0)
		pongs += 2;
		pings += 2;
	}
	sum += gpong(count, 0);
	pongs += count / 2 + 1; // the last one returns
	pings += count / 2;
	truth_calls("gping", pings);
	truth_calls("gpong", pongs);
	printf("tail %ld\n", sum);
	return 0;
}
