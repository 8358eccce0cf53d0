// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread; cflags=-fno-builtin
// Every input says what is in it: calls of scanf inside others, calls that are left by longjmp or
// by a fork, and threads, all at the same places of their stacks.
#define _GNU_SOURCE
#include "truth.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 100, THREADS = 3 };

static jmp_buf out;
static int mode; // what happens in the middle of a call

static ssize_t inside(void *cookie, char *to, size_t size)
{
	char word[20];
	int number;

	if (!*(char *)cookie)
		return 0;
	CHECK(sscanf("41 inner", "%d %s", &number, word) == 2 && number == 41);
	if (mode == 1)
		longjmp(out, 1);
	if (mode == 2 && !fork()) {
		mode = 3;
		*(char *)cookie = 0;
		memcpy(to, "42 child ", 9);
		return 9;
	}
	*(char *)cookie = 0;
	memcpy(to, "43 outer ", 9);
	return size > 9 ? 9 : -1;
}

static int from_within(int how)
{
	char is_new = 1, word[20] = "left";
	FILE *stream = fopencookie(&is_new, "r", (cookie_io_functions_t){.read = inside});
	int number = 0;

	mode = how;
	if (stream && !setjmp(out))
		CHECK(fscanf(stream, "%d %s", &number, word) == 2);
	CHECK(!strcmp(word, number == 43 ? "outer" : number == 42 ? "child" : "left"));
	return number;
}

static void *in_thread(void *argument)
{
	char line[40], word[20];
	int number;
	double real;

	for (int i = 0; i < ROUNDS; i++) {
		snprintf(line, sizeof(line), "%d t%d %d.5", i, (int)(long)argument, i);
		CHECK(sscanf(line, "%d %s %lf", &number, word, &real) == 3);
		CHECK(number == i && real == i + .5 && word[0] == 't');
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int status = 0;

	CHECK(from_within(0) == 43);
	for (int i = 0; i < 20; i++) // more than there is room for
		CHECK(from_within(1) == 0);
	if (from_within(2) == 42)
		_exit(0);
	CHECK(wait(&status) > 0 && status == 0);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, in_thread, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(printf("done\n") == 5);
	return 0;
}
