// SPDX-License-Identifier: Apache-2.0
// target: libs=tail; ldflags=-Wl,--export-dynamic
// Tail calls through slots: gping and gpong jump to each other, a million times
// on one frame, and one short chain that ends in an ordinary call.
#include "truth.h"

#include <stdio.h>

long gping(long left, long sum); // here: jumps to gpong
long gpong(long left, long sum); // in libtail: jumps to gping

__attribute__((noinline, optimize("O2"))) long gping(long left, long sum)
{
	if (left == 0)
		return sum;
	return gpong(left - 1, sum + left);
}

int main(void)
{
	long sum = 0, pings = 0, pongs = 0;
	for (int i = 0; i < 20; i++) {
		sum += gpong(3, i); // gping(2), gpong(1), gping(0)
		pongs += 2;
		pings += 2;
	}
	sum += gpong(1000000, 0);
	pongs += 500001; // the last one returns
	pings += 500000;
	truth_calls("gping", pings);
	truth_calls("gpong", pongs);
	printf("tail %ld\n", sum);
	return 0;
}
