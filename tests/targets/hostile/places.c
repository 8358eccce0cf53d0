/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "places THREADS": threads that are there at once, and each allocates in 256 places. Says how many
 * KiB of memory each thread has taken, and how many KiB there are more than at first when all of
 * them have ended.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1000, STACK = 1 << 16, ROUNDS = 3 };

#define ONE                                    \
	{                                      \
		void *volatile p = malloc(16); \
		free(p);                       \
	}
#define FOUR ONE ONE ONE ONE
#define SIXTEEN FOUR FOUR FOUR FOUR
#define SIXTY_FOUR SIXTEEN SIXTEEN SIXTEEN SIXTEEN

static pthread_barrier_t begun, over;

static long anonymous(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[200];
	long kib = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "RssAnon:", 8))
			kib = atol(line + 8);
	if (!file || fclose(file) || kib < 0)
		abort();
	return kib;
}

static void *work(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		SIXTY_FOUR
		SIXTY_FOUR
		SIXTY_FOUR
		SIXTY_FOUR
	}
	pthread_barrier_wait(&begun);
	pthread_barrier_wait(&over);
	return unused;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 100;
	static pthread_t threads[MOST];
	pthread_attr_t attributes;
	long before = anonymous();

	if (count < 1 || count > MOST || pthread_attr_init(&attributes) ||
	    pthread_attr_setstacksize(&attributes, STACK) ||
	    pthread_barrier_init(&begun, NULL, (unsigned)count + 1) ||
	    pthread_barrier_init(&over, NULL, (unsigned)count + 1))
		abort();
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], &attributes, work, NULL))
			abort();
	pthread_barrier_wait(&begun);
	printf("%ld ", (anonymous() - before) / count);
	pthread_barrier_wait(&over);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", anonymous() - before);
	return 0;
}
