// SPDX-License-Identifier: Apache-2.0
// Pairs of malloc and free, a few frames deep: the CPU time of each part, in ns a pair.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long pairs;

static __attribute__((noinline)) void pair(long turn, int depth)
{
	char *block;

	if (depth) {
		pair(turn, depth - 1);
		__asm__ volatile("" ::: "memory");
		return;
	}
	block = malloc(64 + (size_t)(turn & 63));
	__asm__ volatile("" : : "r"(block) : "memory");
	free(block);
}

static void *work(void *unused)
{
	(void)unused;
	for (long turn = 0; turn < pairs; turn++)
		pair(turn, (int)(turn & 7));
	return NULL;
}

int main(int argc, char **argv)
{
	int parts = argc > 3 ? atoi(argv[1]) : 1, threads = argc > 3 ? atoi(argv[3]) : 1;

	pairs = argc > 3 ? atol(argv[2]) : 1000000;
	while (parts--) {
		pthread_t others[64];
		clock_t start = clock();

		for (int i = 0; i < threads; i++)
			pthread_create(&others[i], NULL, work, NULL);
		for (int i = 0; i < threads; i++)
			pthread_join(others[i], NULL);
		printf("%f\n", 1e9 * (double)(clock() - start) / CLOCKS_PER_SEC /
				       (double)(pairs * threads));
	}
	return 0;
}
