// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-nostartfiles -Wl,-init,plug_init
// DT_INIT and DT_INIT_ARRAY; the constructors look at their arguments.
#include "plug_body.h"

#include <stddef.h>

void plug_init(int argc, char **argv, char **env);

static void arguments(int argc, char **argv, char **env)
{
	CHECK(argc >= 1 && argv[0] && !argv[argc] && env == environ);
}

void plug_init(int argc, char **argv, char **env)
{
	arguments(argc, argv, env);
	for (int i = 0; i < 5; i++)
		f0(i);
	truth_calls("f0", 5);
}

__attribute__((constructor)) static void array(int argc, char **argv, char **env)
{
	arguments(argc, argv, env);
	for (int i = 0; i < 5; i++)
		f0(i);
	truth_calls("f0", 5);
}
