// SPDX-License-Identifier: Apache-2.0
// Stand-ins for functions of client libraries with arguments on the stack, in a library of their
// own: they say what has reached them.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *redisCommand(void *text, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsprintf(text, format, arguments);
	va_end(arguments);
	return text;
}

int memcached_cas_by_key(long a, long b, long c, long d, long e, long f, long g, long h, long i,
			 long j)
{
	long words[] = {a, b, c, d, e, f, g, h, i, j};

	for (int at = 0; at < 10; at++)
		if (words[at] != at + 1000)
			return -1;
	return 14; // MEMCACHED_NOTSTORED
}
