// SPDX-License-Identifier: Apache-2.0
// Calls labs through a slot of its own, as often as it is told.
#include <stdlib.h>

long many(long count)
{
	long sum = 0;

	for (long i = 0; i < count; i++)
		sum += labs(i);
	return sum;
}
