// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
/* An allocator of a program's own, with one lock; now and then it sleeps while it has that. */

#include <pthread.h>
#include <stddef.h>
#include <time.h>

void *__libc_malloc(size_t size);
void __libc_free(void *data);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int calls;

static void enter(void)
{
	struct timespec nap = {0, 2000000};

	pthread_mutex_lock(&mutex);
	if (++calls % 100000 == 0)
		nanosleep(&nap, NULL);
}

void *malloc(size_t size)
{
	void *data;

	enter();
	data = __libc_malloc(size);
	pthread_mutex_unlock(&mutex);
	return data;
}

void free(void *data)
{
	enter();
	__libc_free(data);
	pthread_mutex_unlock(&mutex);
}
