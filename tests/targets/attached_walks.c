// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; cflags=-fno-inline -fno-optimize-sibling-calls
// THREADS threads walk over their stacks again and again. A line that comes in is a number: when
// each thread has begun and ended so many more walks, it says how many since the last line had
// something else in them than before anybody attached: frames in no image, or addresses less one.
// It ends with status 7, or 2 if a walk was wrong in any other way.
#include "walks.h"
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int over;
static long more, wrong, done[64];

struct list {
	int count;
	void *frames[WALK_MOST];
};

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *data)
{
	struct list *list = data;

	list->frames[list->count++] = (void *)_Unwind_GetIP(context);
	return list->count == WALK_MOST ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static int is_nowhere(void *addr)
{
	Dl_info info;

	return addr && !dladdr(addr, &info);
}

static void compare(const struct list *before, const struct list *now)
{
	int at = 0;

	if (now->count == before->count &&
	    !memcmp(now->frames, before->frames, (size_t)now->count * sizeof(void *)))
		return;
	__atomic_fetch_add(&more, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < now->count; i++) {
		const char *frame = now->frames[i];

		if (is_nowhere(now->frames[i]))
			continue;
		if (at < before->count &&
		    (frame == before->frames[at] || frame + 1 == before->frames[at]))
			at++;
		else
			at = WALK_MOST + 1;
	}
	if (at == before->count || __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED))
		return;
	for (int i = 0; i < now->count || i < before->count; i++)
		fprintf(stderr, "%d: %p, before %p\n", i, now->frames[i], before->frames[i]);
}

static __thread struct list first[2];
static __thread int left;
static __thread long *mine; // in `done`

static int look(int x)
{
	struct list heard = {0}, walked = {0};

	heard.count = backtrace(heard.frames, WALK_MOST);
	(void)_Unwind_Backtrace(add, &walked);
	if (!first[0].count) {
		first[0] = heard;
		first[1] = walked;
	}
	compare(&first[0], &heard);
	compare(&first[1], &walked);
	__atomic_fetch_add(mine, 1, __ATOMIC_RELAXED);
	return x;
}

static int down(int x)
{
	return left-- ? fcall(down, x + 1) + 1 : look(x);
}

static pthread_barrier_t ready;

static void *work(void *place)
{
	mine = place;
	for (long i = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
		left = 6;
		(void)fcall(down, 0);
		if (!i)
			pthread_barrier_wait(&ready);
		if (i % 64 == 0)
			usleep(1000);
	}
	return NULL;
}

static void wait_for(int threads, long walks)
{
	long wanted[64];

	for (int i = 0; i < threads; i++) // one is under way
		wanted[i] = __atomic_load_n(&done[i], __ATOMIC_RELAXED) + walks + 1;
	for (int i = 0; i < threads; i++)
		while (__atomic_load_n(&done[i], __ATOMIC_RELAXED) < wanted[i])
			usleep(1000);
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int count = argc > 1 ? atoi(argv[1]) : 1;
	char line[8];

	pthread_barrier_init(&ready, NULL, (unsigned)count + 1);
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, &done[i]);
	pthread_barrier_wait(&ready);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		wait_for(count, atol(line));
		printf("%ld more\n", __atomic_exchange_n(&more, 0, __ATOMIC_RELAXED));
		fflush(stdout);
	}
	over = 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("wrong %ld\n", wrong);
	return wrong ? 2 : 7;
}
