// SPDX-License-Identifier: Apache-2.0
// libhooking: C functions that others are replaced by.
#include <stdlib.h>
#include <unistd.h>

long allocated;

void *count_malloc(size_t size)
{
	__atomic_fetch_add(&allocated, 1, __ATOMIC_RELAXED);
	return malloc(size);
}

pid_t fixed_pid(void)
{
	return 4711;
}
