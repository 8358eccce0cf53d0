// SPDX-License-Identifier: Apache-2.0
// target: cflags=-O0
// Two thousand functions; to optimise them takes seconds, and changes nothing.
#include "thousand_names.h"

#define DEFINE(n)             \
	int fr##n(int x);     \
	int fr##n(int x)      \
	{                     \
		return x + 1; \
	}
NAMES(DEFINE)
