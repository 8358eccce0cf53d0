// SPDX-License-Identifier: Apache-2.0
// Functions that the compiler may emit calls of.

#include "base/arch.h"
#include "base/memory.h"

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	if (size <= SOSC_FEW)
		sosc_copy_few(to, from, size);
	else
		sosc_copy_bytes(to, from, size);
	return to;
}

void *memset(void *to, int byte, size_t size)
{
	sosc_fill_bytes(to, byte, size);
	return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
	const uint8_t *p = a, *q = b;

	for (; size; size--, p++, q++)
		if (*p != *q)
			return *p - *q;
	return 0;
}
