// SPDX-License-Identifier: Apache-2.0
// target: libs=handed; ldflags=-Wl,--export-dynamic
// A hundred calls of a library's function, which jumps back to one of the program.
#include <stdio.h>

long handed(long n); // in libhanded: jumps to kept
long kept(long n);

__attribute__((noinline)) long kept(long n)
{
	return n * 2;
}

int main(void)
{
	long sum = 0;

	for (long i = 0; i < 100; i++)
		sum += handed(i);
	printf("handed %ld\n", sum);
	return 0;
}
