// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Constructors and a destructor, by DT_INIT_ARRAY and DT_FINI_ARRAY.
#include "plug_body.h"

__attribute__((constructor(101))) static void first(void)
{
	for (int i = 0; i < 2; i++)
		f0(i);
	truth_calls("f0", 2);
}

__attribute__((constructor)) static void second(void)
{
	for (int i = 0; i < 3; i++)
		f0(i);
	truth_calls("f0", 3);
}

__attribute__((destructor)) static void last(void)
{
	f1(1);
	truth_calls("f1", 1);
}
