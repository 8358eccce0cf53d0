// SPDX-License-Identifier: Apache-2.0
// target: libs=ifunc
// A function whose address a resolver chooses, in a library and in libc.
#include "truth.h"

#include <stdio.h>
#include <string.h>

int fifunc(int x);

COUNTED(fifunc);

int main(void)
{
	int sum = 0;
	for (int i = 0; i < 200; i++)
		sum += CALL(fifunc, i);
	REPORT(fifunc);
	printf("ifunc %d %zu\n", sum, strlen("an ifunc of libc"));
	return 0;
}
