// SPDX-License-Identifier: Apache-2.0
// target: libs=versions
// Two versions of one name, both called.
#include "truth.h"

#include <stdio.h>

int fver(int x); // binds to the default, VERS_2
int fver_old(int x);
__asm__(".symver fver_old, fver@VERS_1");

int main(void)
{
	int sum = 0;
	for (int i = 0; i < 70; i++)
		sum += fver(i);
	for (int i = 0; i < 30; i++)
		sum += fver_old(i);
	truth_calls("fver@VERS_2", 70);
	truth_calls("fver@VERS_1", 30);
	printf("versions %d\n", sum);
	return 0;
}
