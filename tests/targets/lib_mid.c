// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
#include "mid.h"

#include "leaf.h"
#include "truth.h"

COUNTED(f0);

int gmid(int x, int times)
{
	for (int i = 0; i < times; i++)
		x = CALL(f0, x);
	return x;
}

void gmid_report(void)
{
	REPORT(f0);
	RESET(f0);
}
