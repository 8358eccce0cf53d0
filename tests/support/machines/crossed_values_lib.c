// SPDX-License-Identifier: Apache-2.0
// Returns sums of what it is passed.
#include "crossed_values.h"

short narrow(short a, unsigned short b, int c, unsigned int d, _Bool e)
{
	return e && b && c && d ? a : 0;
}

unsigned short narrow_unsigned(unsigned short a)
{
	return a;
}

long longs(long a, unsigned long b, long c, long d, long e, long f, long g, unsigned long h, long i)
{
	return a + (long)b + c + d + e + f + g + (long)h + i;
}

long long pairs(int a, long long b, int c, unsigned long long d, int e, long long f, int g)
{
	return a + b + c + (long long)d + e + f + g;
}

unsigned long long pair_last(int a, int b, int c, unsigned long long d, int e)
{
	return (unsigned long long)(a + b + c + e) + d;
}

double doubles(double a, double b, double c, double d, double e, double f, double g, double h,
	       double i, double j, double k, double l, double m, double n, double o)
{
	return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o;
}

float floats(float a, float b, float c, float d, float e, float f, float g, float h, float i,
	     float j, float k, float l, float m, float n, float o, float p, float q)
{
	return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q;
}

double mixed(int a, double b, long c, float d, long long e, double f, short g, float h, int i,
	     double j, float k, long l)
{
	return a + b + (double)c + (double)d + (double)e + f + g + (double)h + i + j + (double)k +
	       (double)l;
}

float single_last(int a, int b, int c, int d, int e, int f, int g, int h, float i, double j)
{
	return (float)(a + b + c + d + e + f + g + h) + i + (float)j;
}

long double extended(long double a, int b, long double c)
{
	return a + b + c;
}

struct tiny tiny(struct tiny t, int n)
{
	return (struct tiny){(short)(t.a + n)};
}

struct pair swap(struct pair p, int n)
{
	return (struct pair){p.b + n, p.a};
}

struct one one(int n, struct one o, double x)
{
	return (struct one){o.f + (float)n + (float)x};
}

struct point point(struct point p, double by, int n)
{
	return (struct point){p.x + by, p.y + n};
}

struct three three(int n, struct three t, float by)
{
	return (struct three){t.x + by, t.y + (float)n, t.z};
}

struct part part(long before, struct part p, int behind)
{
	return (struct part){p.i + (int)before, p.f + (float)behind};
}

struct large large(struct large l, int n, double x)
{
	return (struct large){l.a + n, l.b + (float)x, l.c, l.d, l.e};
}

int many(int a, int b, int c, int d, int e, int f, int g, struct pair p, int h, struct large l,
	 int i)
{
	return a + b + c + d + e + f + g + p.a + p.b + h + l.a + l.d + i;
}

int quads(double a, double b, struct quad c, struct quad d, struct quad e, double f, int g)
{
	return (int)(a + b + c.a + c.d + d.a + d.d + e.a + e.d + f) + g;
}

int filled(float a, double b, struct three c, float d, float e, union small f, struct three g,
	   struct three h, int i, struct one j)
{
	return (int)(a + (float)b + c.x + d + e + f.f[1] + g.y + h.z + j.f) + i;
}

union either either(int n, union either e, float by)
{
	return (union either){.f = e.f + (float)n + by};
}

union small small(union small s, int n, double x)
{
	return (union small){{s.f[1] + (float)n, s.f[0] + (float)x}};
}

struct tagged tagged(int n, struct tagged t)
{
	return (struct tagged){t.kind + n, t.value};
}

union wide wide(int n, union wide w, double by)
{
	return (union wide){w.d + n + by};
}

float _Complex turned(int n, float _Complex z, float by)
{
	float _Complex result;

	__real__ result = __imag__ z + (float)n;
	__imag__ result = __real__ z + by;
	return result;
}

double _Complex turned_wide(int n, double _Complex z, double by)
{
	double _Complex result;

	__real__ result = __imag__ z + n;
	__imag__ result = __real__ z + by;
	return result;
}

int complexes(float _Complex a, int b, double _Complex c, float d, float _Complex e,
	      double _Complex f, double _Complex g, float _Complex h, float _Complex i,
	      double _Complex j, int k, float _Complex l, double m)
{
	return (int)(__real__ a + __imag__ c + __real__ e + __imag__ f + __real__ g + __imag__ h +
		     __real__ i + __imag__ j + __real__ l + d + m) +
	       b + k;
}

int weighed(const struct named *n, int x)
{
	return n->n + n->k + (int)n->weight + x + !n->name;
}

int passed(int x, struct named n, int y)
{
	return n.n + n.k + (int)n.weight + x + y + !n.name;
}
