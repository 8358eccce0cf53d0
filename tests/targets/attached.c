// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread; cflags=-fno-builtin
// Runs until a line comes in: THREADS threads allocate and free, and each says whether
// what it wrote is still there.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int over;

static void *work(void *argument)
{
	unsigned state = (unsigned)(long)argument, wrong = 0, rounds = 0;
	unsigned char *blocks[64] = {0};
	size_t sizes[64] = {0};

	while (!over) {
		unsigned at = (state = state * 1103515245 + 12345) >> 16 & 63;

		if (blocks[at])
			wrong += blocks[at][0] != at || blocks[at][sizes[at] - 1] != at;
		free(blocks[at]);
		sizes[at] = (state >> 8 & 1023) + 8;
		blocks[at] = malloc(sizes[at]);
		memset(blocks[at], (int)at, sizes[at]);
		// the others work for half of the time: more would only take it from who looks on
		if (argument == (void *)1 || !(++rounds & 4095))
			usleep(argument == (void *)1 ? 1000 : 300);
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return (void *)(long)wrong;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int count = argc > 1 ? atoi(argv[1]) : 1;
	long wrong = 0;
	char line[8];
	void *result;

	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	over = 1;
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], &result);
		wrong += (long)result;
	}
	printf("wrong %ld\n", wrong);
	return wrong ? 2 : 7;
}
