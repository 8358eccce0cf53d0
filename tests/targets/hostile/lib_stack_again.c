/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that ends its thread. */
#include <pthread.h>
#include <stdlib.h>

__thread int must_end;

void *valloc(size_t size)
{
	if (must_end)
		pthread_exit(NULL);
	return malloc(size);
}
