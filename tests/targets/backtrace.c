// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-inline -fno-optimize-sibling-calls; ldflags=-Wl,--export-dynamic
// glibc's backtrace() under hooked calls finds every caller, in order, down to main.
#include "leaf.h"
#include "truth.h"

#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

COUNTED(fcall);

static char found[512];

int level_three(int x)
{
	void *frames[64];
	int count = backtrace(frames, 64);
	char **names = backtrace_symbols(frames, count);
	static const char *const wanted[] = {"level_three", "level_two", "level_one", "main"};
	unsigned next = 0;
	found[0] = 0;
	for (int i = 0; i < count; i++)
		for (unsigned w = next; w < 4; w++) {
			const char *at = strchr(names[i], '(');
			if (at && !strncmp(at + 1, wanted[w], strlen(wanted[w]))) {
				strcat(strcat(found, wanted[w]), " ");
				next = w + 1;
			}
		}
	free(names);
	return x;
}

int level_two(int x)
{
	return CALL(fcall, level_three, x) + 1;
}

int level_one(int x)
{
	return CALL(fcall, level_two, x) + 1;
}

int main(void)
{
	int sum = 0;
	for (int i = 0; i < 10; i++)
		sum += CALL(fcall, level_one, i) + 1;
	REPORT(fcall);
	printf("backtrace %s%d\n", found, sum);
	return 0;
}
