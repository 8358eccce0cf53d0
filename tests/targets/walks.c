// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-inline -fno-optimize-sibling-calls; ldflags=-pthread; runs=0|1|100; timeout=120
// backtrace and _Unwind_Backtrace below hooked calls say what they say without: at depths from
// 1 to 60, in buffers of all sizes, in signal handlers, one inside another, and on small stacks.
// The argument says how many threads do it at once.
#include "walks.h"
#include "leaf.h"
#include "truth.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

COUNTED(fcall);

static __thread struct walked *report; // where the signal handler writes
static __thread struct walked *all;
static int crowded; // be brief

static int measure(struct walked *to, int size)
{
	void *frames[WALK_MOST] = {0};
	int count = backtrace(frames, size);

	for (int i = 0; i < count; i++)
		walked_add(to, frames[i]);
	for (int i = count; i < WALK_MOST; i++)
		CHECK(!frames[i]);
	return count;
}

static _Unwind_Reason_Code nested_step(struct _Unwind_Context *context, void *data)
{
	struct walked *to = data;
	struct walked inner = {.most = -1};

	CHECK(walk(&inner) == _URC_END_OF_STACK);
	to->hash +=
		(unsigned long)inner.exact; // where it is called from is the unwinder's business
	walked_add(to, (void *)_Unwind_GetIP(context));
	return to->count == 3 ? _URC_NO_REASON + 1 : _URC_NO_REASON;
}

static void on_signal(int number)
{
	(void)number;
	(void)measure(report, 100);
	(void)walk(report);
}

static int look(int depth)
{
	static const int sizes[] = {-1, 0, 1, 2, 8, 256};
	struct walked nested = {0}, some = {.most = 2};

	if (all->most > 0) { // on a small stack
		void *frames[40];
		int count = backtrace(frames, 40);
		for (int i = 0; i < count; i++)
			walked_add(all, frames[i]);
		return depth;
	}
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		all->hash = all->hash * 31 + (unsigned long)measure(all, sizes[i]);
	for (int size = depth + 3; size < depth + 12 && !crowded; size += 2)
		all->hash = all->hash * 31 + (unsigned long)measure(all, size);
	all->hash += (unsigned long)walk(all);
	all->hash += (unsigned long)walk(&some) + some.hash;
	all->hash += _Unwind_Backtrace(nested_step, &nested) + nested.hash;
	report = all;
	CHECK(raise(SIGUSR1) == 0);
	return depth;
}

static __thread int left;

static int down(int depth)
{
	if (!left--)
		return look(depth);
	if (depth % 3 == 2)
		return down(depth + 1);
	return CALL(fcall, down, depth + 1) + 1;
}

static int compare(const void *a, const void *b)
{
	static __thread int inside;

	if (!inside++)
		(void)down(3);
	inside--;
	return *(const int *)a - *(const int *)b;
}

static struct walked run(int depth, int most)
{
	struct walked result = {.most = most};
	int values[] = {2, 1};

	all = &result;
	left = depth;
	(void)down(0);
	left = depth;
	qsort(values, 2, sizeof(int), compare);
	return result;
}

static void *work(void *data)
{
	struct walked *results = data;

	for (int depth = 5; depth <= 60; depth += crowded ? 60 : 27)
		results[depth] = run(depth, -1);
	return NULL;
}

static void *small(void *data)
{
	*(struct walked *)data = run(12, 1000);
	return NULL;
}

static struct walked results[101][61];

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t thread[100];
	pthread_attr_t attributes;

	signal(SIGUSR1, on_signal);
	for (int depth = 1; depth <= 60; depth += threads ? 59 : 1) {
		crowded = depth % 10 != 1;
		struct walked one = run(depth, -1);
		printf("%d: %d %lx %d\n", depth, one.count, one.hash, one.exact);
	}
	crowded = threads > 10;
	for (int i = 0; i < threads; i++)
		CHECK(!pthread_create(&thread[i], NULL, work, results[i]));
	for (int i = 0; i < threads; i++)
		CHECK(!pthread_join(thread[i], NULL));
	for (int i = 1; i < threads; i++)
		for (int depth = 1; depth <= 60; depth++)
			CHECK(results[i][depth].hash == results[0][depth].hash);
	for (int depth = 5; depth <= 60 && threads; depth += 27)
		printf("thread %d: %d %lx\n", depth, results[0][depth].count,
		       results[0][depth].hash);
	CHECK(!pthread_attr_init(&attributes));
	CHECK(!pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN));
	CHECK(!pthread_create(&thread[0], &attributes, small, results[100]));
	CHECK(!pthread_join(thread[0], NULL));
	printf("small: %d %lx\n", results[100]->count, results[100]->hash);
	REPORT(fcall);
	return 0;
}
