// SPDX-License-Identifier: Apache-2.0
// target: libs=names; cflags=-O0; ldflags=-Wl,-z,lazy
// Two thousand unbound slots that threads bind at the same time.
#include "thousand_names.h"

#define DECLARE(n) int fr##n(int x);
NAMES(DECLARE)

int binds_up(int x);
int binds_down(int x);

#define USE(n) x = fr##n(x);
int binds_up(int x)
{
	NAMES(USE)
	return x;
}

// the same slots, the second thousand first
int binds_down(int x)
{
	NAMES1000(USE, 1)
	NAMES1000(USE, 0)
	return x;
}
