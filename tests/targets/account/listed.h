// SPDX-License-Identifier: Apache-2.0
// Functions that take a va_list, called with what is in it.
#include <stdarg.h>
#include <stdio.h>

int __isoc99_vsscanf(const char *, const char *, va_list);
int __isoc99_vfscanf(FILE *, const char *, va_list);

#define LISTED(of, function, parameters, ...)                     \
	static int of parameters                                  \
	{                                                         \
		va_list list;                                     \
                                                                  \
		va_start(list, format);                           \
		int result = function(__VA_ARGS__, format, list); \
		va_end(list);                                     \
		return result;                                    \
	}

LISTED(to_vsprintf, vsprintf, (char *to, const char *format, ...), to)
LISTED(to_vsnprintf, vsnprintf, (char *to, unsigned long size, const char *format, ...), to, size)
LISTED(to_vasprintf, vasprintf, (char **to, const char *format, ...), to)
LISTED(to_vfprintf, vfprintf, (FILE * stream, const char *format, ...), stream)
LISTED(to_vdprintf, vdprintf, (int fd, const char *format, ...), fd)
LISTED(to_vsscanf, __isoc99_vsscanf, (const char *from, const char *format, ...), from)
LISTED(to_vfscanf, __isoc99_vfscanf, (FILE * from, const char *format, ...), from)

#define vsprintf(...) to_vsprintf(__VA_ARGS__)
#define vsnprintf(...) to_vsnprintf(__VA_ARGS__)
#define vasprintf(...) to_vasprintf(__VA_ARGS__)
#define vfprintf(...) to_vfprintf(__VA_ARGS__)
#define vdprintf(...) to_vdprintf(__VA_ARGS__)
#define __isoc99_vsscanf(...) to_vsscanf(__VA_ARGS__)
#define __isoc99_vfscanf(...) to_vfscanf(__VA_ARGS__)
