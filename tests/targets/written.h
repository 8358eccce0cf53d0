// SPDX-License-Identifier: Apache-2.0
// Whether calls write what their pointers lead to, by the program's own account: each buffer
// holds a pattern, and what a call has left of it was not written. written.py of
// tests/support/targets generates the calls themselves. A line for each argument, or for a call
// with none, goes to the file named by argv[1]:
//
//	CALL NAME ITEM ADDRESS WRITTEN FAILED ERRNO
//
// CALL counts the calls. ITEM is the number of the argument, -1 for none; WRITTEN is how many bytes are not the
// pattern any more, up to the last of them; FAILED is -1 where the caller does not say; ERRNO is
// 0 where the call has left errno alone.
#ifndef WRITTEN_H
#define WRITTEN_H

#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OUTS = 4, ROOM = 512, MARK = 3000 };

static _Alignas(16) unsigned char out[OUTS][ROOM];
static int account, call_number;
static int pattern; // another one in the second round: an answer may look like the first

#define O0 ((void *)out[0])
#define O1 ((void *)out[1])
#define O2 ((void *)out[2])
// What a function both reads and writes: a length, set before the call.
#define SIZE(o, n) ((*(unsigned int *)(o) = (n)), (o))
#define LONG(o, n) ((*(unsigned long *)(o) = (n)), (o))

static void fill(void)
{
	for (int i = 0; i < OUTS; i++)
		memset(out[i], pattern, ROOM);
	call_number++;
	errno = MARK + pattern; // no function sets this one
}

static long extent(int number)
{
	for (long size = ROOM; size > 0; size--)
		if (out[number][size - 1] != pattern)
			return size;
	return 0;
}

static void tell(const char *name, int item, int number, int failed)
{
	int error = errno;

	dprintf(account, "%d %s %d %p %ld %d %d\n", call_number, name, item, (void *)out[number],
		item < 0 ? 0 : extent(number), failed, error == MARK + pattern ? 0 : error);
	errno = error;
}

// Leaves no number for another descriptor, so that whoever wants one fails.
static int no_descriptor(int none)
{
	static struct rlimit before;
	struct rlimit limit;

	if (none && syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &before) == 0) {
		limit = before;
		limit.rlim_cur = 0;
		return setrlimit(RLIMIT_NOFILE, &limit);
	}
	return setrlimit(RLIMIT_NOFILE, &before);
}

#endif
