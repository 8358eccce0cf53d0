// SPDX-License-Identifier: Apache-2.0
// The scanf family by its own names, which <stdio.h> would give others; those that take a va_list
// are called with what is in it.
#include <stdarg.h>
#include <stddef.h>

typedef struct _IO_FILE FILE;

extern FILE *stdin;
FILE *fmemopen(void *, size_t, const char *);
FILE *fdopen(int, const char *);
int sscanf(const char *, const char *, ...);
int __isoc99_sscanf(const char *, const char *, ...);
int fscanf(FILE *, const char *, ...);
int __isoc99_fscanf(FILE *, const char *, ...);
int scanf(const char *, ...);
int __isoc99_scanf(const char *, ...);
int vsscanf(const char *, const char *, va_list);
int __isoc99_vsscanf(const char *, const char *, va_list);
int __isoc99_vfscanf(FILE *, const char *, va_list);
int __isoc99_vscanf(const char *, va_list);
int __isoc99_swscanf(const wchar_t *, const wchar_t *, ...);
int __isoc99_fwscanf(FILE *, const wchar_t *, ...);
int __isoc99_wscanf(const wchar_t *, ...);
int __isoc99_vswscanf(const wchar_t *, const wchar_t *, va_list);

#define LISTED(of, function, parameters, ...)       \
	static int of parameters                    \
	{                                           \
		va_list list;                       \
                                                    \
		va_start(list, format);             \
		int result = function(__VA_ARGS__); \
		va_end(list);                       \
		return result;                      \
	}

LISTED(to_old, vsscanf, (const char *from, const char *format, ...), from, format, list)
LISTED(to_string, __isoc99_vsscanf, (const char *from, const char *format, ...), from, format, list)
LISTED(to_stream, __isoc99_vfscanf, (FILE * from, const char *format, ...), from, format, list)
LISTED(to_input, __isoc99_vscanf, (const char *format, ...), format, list)
LISTED(to_wide, __isoc99_vswscanf, (const wchar_t *from, const wchar_t *format, ...), from, format,
       list)

#define vsscanf(...) to_old(__VA_ARGS__)
#define __isoc99_vsscanf(...) to_string(__VA_ARGS__)
#define __isoc99_vfscanf(...) to_stream(__VA_ARGS__)
#define __isoc99_vscanf(...) to_input(__VA_ARGS__)
#define __isoc99_vswscanf(...) to_wide(__VA_ARGS__)

static char near[30], first[40], second[40], third[40], five[5], format_and_text[40];
static char *made, *other;
static wchar_t wide[20], *wide_made;
static int a, b, c, d, e, f, g, h, passed;
static unsigned u, v, w;
static short half;
static signed char tiny;
static long l, m;
static long long ll;
static float x;
static double y;
static long double z;
static void *address;
