/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose code the test makes execute-only. It binds its slots when they are called. */
#include <stdlib.h>

void *kept[16];

int allocate(int count)
{
	for (int i = 0; i < count; i++)
		kept[i] = malloc(100);
	return count;
}
