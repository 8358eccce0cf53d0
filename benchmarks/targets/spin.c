// SPDX-License-Identifier: Apache-2.0
// spin THREADS: so many threads that run until they are killed, each 12 calls deep.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static double work(int depth)
{
	if (depth)
		return work(depth - 1) + 1;
	volatile double sum = 0;
	for (long i = 0; i < 10000000; i++)
		sum += (double)i;
	return sum;
}

static void *spin(void *argument)
{
	for (;;)
		work(12);
	return argument;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 8;
	pthread_t thread;
	for (int i = 0; i < count; i++)
		pthread_create(&thread, NULL, spin, NULL);
	pause();
	return 0;
}
