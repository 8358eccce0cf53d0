// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-nostartfiles -Wl,-init,plug_init -Wl,-fini,plug_fini
// DT_INIT and DT_FINI alone, no arrays.
#include "plug_body.h"

void plug_init(void);
void plug_fini(void);

void plug_init(void)
{
	for (int i = 0; i < 5; i++)
		f0(i);
	truth_calls("f0", 5);
}

void plug_fini(void)
{
	f1(1);
	truth_calls("f1", 1);
}
