// SPDX-License-Identifier: Apache-2.0
// left_open THREADS COROUTINES: so many threads end inside two calls of libleft_open.so, and so many
// coroutines are suspended inside two others and never go on.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

void ends(int x);
void waits(ucontext_t *mine, ucontext_t *other);

enum { MOST = 8, STACK = 1 << 20 };

static ucontext_t before, inside[MOST];

static void *run(void *unused)
{
	ends(1);
	return unused;
}

static void begin(int number)
{
	waits(&inside[number], &before);
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0, coroutines = argc > 2 ? atoi(argv[2]) : 0;

	if (coroutines > MOST)
		return 2;
	for (int i = 0; i < threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, NULL))
			return 3;
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < coroutines; i++) {
		ucontext_t *next = &inside[i];

		getcontext(next);
		next->uc_stack.ss_sp = malloc(STACK);
		next->uc_stack.ss_size = STACK;
		makecontext(next, (void (*)(void))begin, 1, i);
		swapcontext(&before, next);
	}
	printf("left_open %d %d\n", threads, coroutines);
	return 0;
}
