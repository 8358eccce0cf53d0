// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// An auditor with a library of its own, in a namespace of their own, which calls it for
// each plugin that the program loads.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <link.h>
#include <stdint.h>
#include <string.h>

COUNTED(f0);

unsigned la_version(unsigned version)
{
	return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
	(void)lmid;
	(void)cookie;
	if (strstr(map->l_name, "libctor_")) {
		for (int i = 0; i < 5; i++)
			CALL(f0, i);
		REPORT(f0);
		RESET(f0);
	}
	return 0;
}
