// SPDX-License-Identifier: Apache-2.0
// target: cflags=-O2 -fomit-frame-pointer
/* A library that calls back, and one that leaves its addresses lying about. */

#include <string.h>
#include <unistd.h>

typedef void callback(void *argument);

enum { WORDS = 512 };

static volatile int goes_on = 1;

/* Stands in the way of a tail call: the caller's frame is to be one. */
static volatile int returned;

__attribute__((noinline)) void inside_call(callback *function, void *argument)
{
	function(argument);
	returned++;
}

/* Fills the stack below its caller with the addresses of instructions of the library. */
__attribute__((noinline)) void inside_litter(int depth)
{
	void *volatile words[WORDS];
	int index;

	for (index = 0; index < WORDS; index++)
		words[index] = (char *)inside_litter + 1 + index % 32;
	if (depth > 1)
		inside_litter(depth - 1);
	returned++;
}

/* Is in the library until somebody says stop. */
__attribute__((noinline)) int inside_spin(void)
{
	int rounds = 0;

	while (goes_on)
		rounds++;
	return rounds;
}

void inside_stop(void)
{
	goes_on = 0;
}

/* Recursion of which each frame is the library's. */
__attribute__((noinline)) void inside_recurse(int depth, callback *function, void *argument)
{
	if (depth)
		inside_recurse(depth - 1, function, argument);
	else
		function(argument);
	returned++;
}

/* ---- what stands in the place of functions of libc ---- */

char *inside_getenv(const char *name)
{
	(void)name;
	return "mine";
}

size_t inside_strlen(const char *text)
{
	size_t size = 0;

	while (((const volatile char *)text)[size])
		size++;
	return size;
}

int (*usleep_original)(useconds_t);

/* A frame of the library that is nearly always there, but is left again and again. */
int inside_usleep(useconds_t span)
{
	int done = usleep_original(span);

	returned++;
	return done;
}

int (*poll_original)(void *, unsigned long, int);

/* Whoever calls it stays in it for long. */
int inside_poll(void *ends, unsigned long count, int limit)
{
	int done = poll_original(ends, count, limit);

	returned++;
	return done;
}
