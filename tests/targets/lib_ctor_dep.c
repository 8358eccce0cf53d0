// SPDX-License-Identifier: Apache-2.0
// target: libs=ctor_array,leaf; cflags=-Wl,--no-as-needed
// Brings a dependency along that has constructors of its own.
#include "leaf.h"
#include "plug.h"
#include "truth.h"

__attribute__((constructor)) static void first(void)
{
	for (int i = 0; i < 4; i++)
		f0(i);
	truth_calls("f0", 4);
}
