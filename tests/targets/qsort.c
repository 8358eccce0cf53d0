// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-inline; select=qsort@MAIN,bsearch@MAIN,fcall@MAIN,f0@MAIN
// Callbacks: hooked functions call back into code that calls hooked functions.
#include "leaf.h"
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>

COUNTED(qsort);
COUNTED(bsearch);
COUNTED(fcall);
COUNTED(f0);

static int compare(const void *a, const void *b)
{
	int x = CALL(f0, *(const int *)a), y = CALL(f0, *(const int *)b);
	return (x > y) - (x < y);
}

static int down(int depth)
{
	return depth ? CALL(fcall, down, depth - 1) : CALL(f0, 0);
}

int main(void)
{
	static int numbers[1000];
	unsigned seed = 1;
	for (int i = 0; i < 1000; i++) {
		seed = seed * 1103515245u + 12345u;
		numbers[i] = (int)(seed >> 8);
	}
	CALL(qsort, numbers, 1000, sizeof numbers[0], compare);
	for (int i = 1; i < 1000; i++)
		CHECK(numbers[i - 1] <= numbers[i]);
	int found = 0;
	for (int i = 0; i < 100; i++) {
		int key = numbers[i * 10];
		int *at = CALL(bsearch, &key, numbers, 1000, sizeof key, compare);
		found += at && *at == key;
	}
	int depth = CALL(fcall, down, 100);
	REPORT(qsort);
	REPORT(bsearch);
	REPORT(fcall);
	REPORT(f0);
	printf("qsort %d %d\n", found, depth);
	return 0;
}
