// SPDX-License-Identifier: Apache-2.0
// What these functions return is made of what they take, so that nothing is left out.
#include "libown.h"

int own_six(int a, int b, int c, int d, int e, int f)
{
	return a - b + c - d + e - f;
}

long own_fifteen(int a, long b, short c, signed char d, unsigned e, unsigned long f, int g, long h,
		 int i, double j, int k, float l, const char *m, int n, long o)
{
	return a + b + c + d + e + f + g + h + i + (long)j + k + (long)l + m[0] + n + o;
}

double own_floats(double a, double b, double c, double d, double e, double f, double g, double h,
		  double i, double j)
{
	return a + b + c + d + e + f + g + h + i - j;
}

struct small own_small(struct small s, int n)
{
	return (struct small){s.a * n, s.b * n};
}

struct pair own_pair(struct pair p)
{
	return (struct pair){p.y, p.x};
}

struct large own_large(struct large l, int n)
{
	l.a[3] = n;
	l.b = -l.b;
	return l;
}

long double own_wide(long double a, int b, long double c)
{
	return a * b - c;
}

float own_float(float a, char b)
{
	return a * b;
}

_Bool own_bool(_Bool a, unsigned char b)
{
	return a && b;
}

unsigned long own_unsigned(unsigned long a, unsigned short b, unsigned char c)
{
	return a - b - c;
}

const char *own_string(const char *s)
{
	return s + 1;
}

void own_nothing(long long a)
{
	(void)a;
}

struct tight own_tight(struct tight a, int n, const struct tight *b)
{
	return (struct tight){a.a + n, b->b, a.c + b->c};
}
