// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf,names
// A plug-in with two thousand slots; its caller says what it did.
#include "leaf.h"
#include "plug.h"
#include "thousand_names.h"

#define DECLARE(n) int fr##n(int x);
NAMES(DECLARE)

int plug_run(int times)
{
	int x = 0;
	for (int i = 0; i < times; i++)
		x = f0(x);
#define USE(n) x = fr##n(x);
	NAMES(USE)
	return x;
}
