// SPDX-License-Identifier: Apache-2.0
// target: libs=thrown; status=5
#include "thrown.h"

#include <cstdio>

int main()
{
	long sum = 0;

	for (int i = 0; i < 2000; i++)
		sum = sum * 3 % 1000003 + catcher(i);
	const unsigned long *counts = thrown_counts();
	std::printf("sum %ld destroyed %lu\n", sum, counts[3]);
	std::printf("calls thrower %lu\ncalls catcher %lu\ncalls passes %lu\n", counts[0],
		    counts[1], counts[2]);
	return 5;
}
