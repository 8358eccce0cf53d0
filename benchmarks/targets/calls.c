// SPDX-License-Identifier: Apache-2.0
// Calls functions of shared libraries in bursts and says what each call cost.
//
//	calls KIND THREADS BURSTS PARTS CALLS PAUSE
//
// KIND: one (labs of libc, one integer argument), leaf (a library's function whose
// prototype nobody knows), six (the same with six arguments), pair (malloc and free),
// write (4096 bytes to /dev/null), numbers (strtol of another text each time), texts (strlen of
// such a text), failures (access of a path that is not there, each time another one), prints
// (snprintf with a number and a string), again (strtol of the same text), kept (strlen
// with a text of 20 bytes), crowd (labs, timed from the start of all threads to the
// end of the last: one number for each burst).
// A burst is PARTS times CALLS calls by every thread, a part is timed on its own: where
// the kernel takes the processor away, one part shows it and the median does not. The
// first burst warms up and is not printed. PAUSE milliseconds between bursts let a tracer
// empty its buffer. Prints nanoseconds a call (pair: a pair), one number for each part.
#define _GNU_SOURCE
#include "leaf.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 256, MAX_PARTS = 65536, BYTES = 4096 };

static const char *kind;
static int bursts, parts;
static long calls, pause_ms, threads;
static pthread_barrier_t together;
static double results[MAX_THREADS][MAX_PARTS];
static volatile long sink;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static long run_one(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += labs(i);
	return sum;
}

static long run_leaf(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum = bench_leaf(sum);
	return sum;
}

static long run_six(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum = bench_six(sum, i, 3, 4, 5, 6);
	return sum;
}

static long run_pair(long n)
{
	for (long i = 0; i < n; i++) {
		void *p = malloc(64);

		__asm__ volatile("" : "+r"(p) : : "memory");
		free(p);
	}
	return n;
}

static long run_write(long n)
{
	static char bytes[BYTES];
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += write(fd, bytes, sizeof bytes);
	close(fd);
	return sum;
}

static const char *text_of(long i)
{
	static char text[32];
	char *at = text + sizeof text - 1;

	do
		*--at = '0' + i % 10;
	while (i /= 10);
	return at;
}

static long run_numbers(long n)
{
	static long next;
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += strtol(text_of(next++), NULL, 10);
	return sum;
}

static long run_texts(long n)
{
	static long next;
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += strlen(text_of(next++));
	return sum;
}

static long run_failures(long n)
{
	static long next;
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += access(text_of(next++), F_OK);
	return sum;
}

static long run_prints(long n)
{
	static long next;
	static char text[64];
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += snprintf(text, sizeof text, "%ld of %s", next++, "all");
	return sum;
}

static long run_again(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += strtol("12345", NULL, 10);
	return sum;
}

static long run_kept(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++) {
		const char *text = "a text of 20 bytes..";

		__asm__ volatile("" : "+r"(text) : : "memory");
		sum += strlen(text);
	}
	return sum;
}

static long (*workload(void))(long)
{
	if (!strcmp(kind, "prints"))
		return run_prints;
	switch (kind[0]) {
	case 'o':
		return run_one;
	case 'l':
		return run_leaf;
	case 's':
		return run_six;
	case 'p':
		return run_pair;
	case 'w':
		return run_write;
	case 'c':
		return run_one;
	case 'n':
		return run_numbers;
	case 't':
		return run_texts;
	case 'f':
		return run_failures;
	case 'a':
		return run_again;
	case 'k':
		return run_kept;
	default:
		return NULL;
	}
}

// All threads at once: what each of more threads than processors takes says little.
static void *member(void *number)
{
	double *result = results[0];

	for (int burst = 0; burst <= bursts; burst++) {
		if (burst)
			usleep(pause_ms * 1000);
		pthread_barrier_wait(&together);
		double start = now();
		sink = run_one(calls * parts);
		pthread_barrier_wait(&together);
		if (burst && !number)
			*result++ = (now() - start) / calls / parts / threads;
	}
	return NULL;
}

static void *thread(void *number)
{
	if (kind[0] == 'c')
		return member(number);

	double *result = results[(long)number];
	long (*work)(long) = workload();

	for (int burst = 0; burst <= bursts; burst++) {
		if (burst)
			usleep(pause_ms * 1000);
		pthread_barrier_wait(&together);
		for (int part = 0; part < parts; part++) {
			double start = now();

			sink = work(calls);
			if (burst)
				*result++ = (now() - start) / calls;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t ids[MAX_THREADS];

	if (argc != 7) {
		fprintf(stderr, "usage: calls KIND THREADS BURSTS PARTS CALLS PAUSE\n");
		return 2;
	}
	kind = argv[1];
	threads = atol(argv[2]);
	bursts = atoi(argv[3]);
	parts = atoi(argv[4]);
	calls = atol(argv[5]);
	pause_ms = atol(argv[6]);
	if (!workload() || threads < 1 || threads > MAX_THREADS || bursts * parts > MAX_PARTS)
		return 2;
	pthread_barrier_init(&together, NULL, threads);
	for (long i = 1; i < threads; i++)
		pthread_create(&ids[i], NULL, thread, (void *)i);
	thread((void *)0);
	for (long i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	long rows = kind[0] == 'c' ? 1 : threads,
	     columns = kind[0] == 'c' ? bursts : bursts * parts;
	for (long i = 0; i < rows; i++)
		for (long part = 0; part < columns; part++)
			printf("%.4f ", results[i][part]);
	printf("\n");
	return 0;
}
