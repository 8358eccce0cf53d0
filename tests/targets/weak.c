// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Weak names: one nobody defines stays null and is tested for, one is there.
#include "leaf.h"
#include "truth.h"

#include <stdio.h>

int fabsent(int x) __attribute__((weak));
extern __typeof__(f1) f1 __attribute__((weak));

COUNTED(f0);
COUNTED(f1);
COUNTED(fabsent);

int main(void)
{
	int sum = 0;
	for (int i = 0; i < 50; i++) {
		sum += CALL(f0, i);
		if (fabsent)
			sum += CALL(fabsent, i);
		if (f1)
			sum += CALL(f1, i);
	}
	REPORT(f0);
	REPORT(f1);
	REPORT(fabsent);
	printf("weak %d %d\n", sum, fabsent != 0);
	return 0;
}
