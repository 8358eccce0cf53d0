// SPDX-License-Identifier: Apache-2.0
#include "leaf.h"
#include "plug.h"
#include "truth.h"

int plug_run(int times)
{
	int x = 0;
	for (int i = 0; i < times; i++)
		x = f0(x);
	truth_calls("f0", times);
	return x;
}
