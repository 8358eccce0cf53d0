// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fexceptions
#include "leaf.h"

#include <errno.h>
#include <stdarg.h>

int f0(int x)
{
	return x + 1;
}

int f1(int x)
{
	return x + 2;
}

int f2(int x)
{
	return x + 3;
}

long f8(long a, long b, long c, long d, long e, long f, long g, long h)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

double fd10(double a, double b, double c, double d, double e, double f, double g, double h,
	    double i, double j)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

float ff(float a)
{
	return a * 0.5f;
}

long double fld(long double a, long double b)
{
	return a / b;
}

// Declared here, not in leaf.h: C++ spells complex types otherwise.
double _Complex fcx(double _Complex a)
{
	return a * (3.0 + 1.0i);
}

long double _Complex flcx(long double _Complex a, int x)
{
	return a + (long double)x + 2.0il * x;
}

struct big fbig(struct big value, int x)
{
	for (int i = 0; i < 512; i++)
		value.word[i] += x * i;
	return value;
}

struct mixed fmixed(long a, double b)
{
	return (struct mixed){a * 3, b * 0.25};
}

__int128 fint128(long a, long b)
{
	return ((__int128)a << 64) + b;
}

long fva(int count, ...)
{
	va_list list;
	long sum = 0;
	va_start(list, count);
	for (int i = 1; i <= count; i++)
		sum += i * va_arg(list, long);
	va_end(list);
	return sum;
}

double fvad(int count, ...)
{
	va_list list;
	double sum = 0;
	va_start(list, count);
	for (int i = 1; i <= count; i++)
		sum += i * va_arg(list, double);
	va_end(list);
	return sum;
}

int fcall(int (*callback)(int), int x)
{
	return callback(x) + 1;
}

void *fcallp(void *(*callback)(void *), void *argument)
{
	void *result = callback(argument);
	__asm__ volatile("" ::: "memory"); // keep the frame: no tail call
	return result;
}

int ferr(int error)
{
	errno = error;
	return -1;
}

const char *fstr(const char *text)
{
	return text;
}

void fnone(void)
{
}
