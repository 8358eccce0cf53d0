// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf,ctor_array; cflags=-Wl,--no-as-needed; ldflags=-fuse-ld=bfd -Wl,-z,undefs
// Cannot be loaded with RTLD_NOW: a function and a variable are nowhere.
#include "plug_body.h"

extern int missing_variable;
void missing_function(void);
int undefined_use(void);

__attribute__((constructor)) static void first(void)
{
	CHECK(!"constructor of a library that cannot be loaded");
}

int undefined_use(void)
{
	missing_function();
	return missing_variable;
}
