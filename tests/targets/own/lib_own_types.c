// SPDX-License-Identifier: Apache-2.0
// Functions of every kind of type, for whoever has their declarations.
#include "own_types.h"

int own_version = 1;

double own_distance(point a, point b)
{
	return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
}

float own_scale(struct pair p, float by)
{
	return (float)p.a * p.b * by;
}

struct mixed own_mix(struct mixed m, int n)
{
	m.n += n;
	m.d *= n;
	return m;
}

struct turned own_turn(struct turned t)
{
	t.d = -t.d;
	t.c++;
	return t;
}

struct few own_few(struct few f)
{
	struct few turned = {f.c, f.b, f.a};
	return turned;
}

struct three own_three(struct three t, double by)
{
	t.x *= (float)by;
	t.y *= (float)by;
	t.z *= (float)by;
	return t;
}

struct big own_grow(struct big b, long by)
{
	for (int i = 0; i < 3; i++)
		b.n[i] += by;
	b.name[0]++;
	return b;
}

struct bits own_flip(struct bits b)
{
	b.a = 7u - b.a;
	b.c = -b.c;
	b.d++;
	return b;
}

struct nested own_nest(struct nested n)
{
	n.few.b++;
	n.i += 0x400000;
	return n;
}

point own_middle(const point *a, const point *b)
{
	point m = {(a->x + b->x) / 2, (a->y + b->y) / 2};
	return m;
}

long double own_part(long double x, int n)
{
	return x / n;
}

wave own_turned(wave w, double by)
{
	return w * by;
}

enum color own_next(enum color c, level l)
{
	return c == RED ? GREEN : l == LOW ? RED : BLUE;
}

unsigned own_allow(enum mode m)
{
	return m | 8u;
}

_Bool own_not(_Bool b)
{
	return !b;
}

const char *own_name(const char *key, uint8_t n)
{
	return n > 200 ? NULL : key + 1;
}

double own_apply(real_function f, double x, void *argument)
{
	return f(x, argument);
}

long own_sum(int a, int b, int c, int d, int e, int f, int g, short h, double i, float j, long k,
	     signed char l, char m, unsigned char n)
{
	return a + b + c + d + e + f + g + h + (long)i + (long)j + k + l + m + n;
}

double own_many(double a, double b, double c, double d, double e, double f, double g, double h,
		double i, float j)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

point own_spill(int a, int b, int c, int d, int e, struct mixed m, struct few in_6, int on_stack)
{
	point p = {a + b + c + d + e + (double)m.n, m.d + in_6.a + in_6.b + in_6.c + on_stack};
	return p;
}

int8_t own_small(int8_t a, uint16_t b, int64_t c)
{
	return (int8_t)(a + b + c);
}

void own_nothing(void)
{
}
