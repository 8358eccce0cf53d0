/* SPDX-License-Identifier: Apache-2.0 */
/* What a library of one's own declares, in plain C. */
#ifndef OWN_TYPES_H
#define OWN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OWN_SIDES 2
#define OWN_NAME (OWN_SIDES * 4)
#define OWN_MACRO(x) ((x) + 1)
#if OWN_SIDES > 3 || !defined(OWN_NAME)
unknown_type never(not_there);
#endif

typedef struct point {
	double x, y;
} point;
struct pair {
	int a;
	float b;
};
struct mixed {
	long n;
	double d;
};
struct turned {
	double d;
	char c;
};
struct few {
	unsigned char a, b, c;
};
struct three {
	float x, y, z;
};
struct big {
	long n[3];
	char name[OWN_NAME];
};
struct bits {
	unsigned a : 3, b : 5;
	int c : 7;
	unsigned long d : 40;
};
struct nested {
	struct few few;
	union {
		int i;
		float f;
	};
};
enum color { RED, GREEN = 5, BLUE };
enum mode { READ = 1, WRITE = 2, EXEC = 1 << 2 };
typedef enum { LOW = -1, HIGH = 1 } level;
typedef double (*real_function)(double, void *);
typedef double _Complex wave;

double own_distance(point, point);
float own_scale(struct pair p, float by);
struct mixed own_mix(struct mixed m, int n);
struct turned own_turn(struct turned t);
struct few own_few(struct few f);
struct three own_three(struct three t, double by);
struct big own_grow(struct big b, long by);
struct bits own_flip(struct bits b);
struct nested own_nest(struct nested n);
point own_middle(const point *a, const point *b);
long double own_part(long double x, int n);
wave own_turned(wave w, double by);
enum color own_next(enum color c, level l);
unsigned own_allow(enum mode m);
_Bool own_not(_Bool b);
const char *own_name(const char *key, uint8_t n);
double own_apply(real_function f, double x, void *argument);
long own_sum(int a, int b, int c, int d, int e, int f, int g, short h, double i, float j, long k,
	     signed char l, char m, unsigned char n);
double own_many(double a, double b, double c, double d, double e, double f, double g, double h,
		double i, float j);
point own_spill(int a, int b, int c, int d, int e, struct mixed m, struct few in_6, int on_stack);
int8_t own_small(int8_t a, uint16_t b, int64_t c);
void own_nothing(void);
static inline int own_inline(int x)
{
	return OWN_MACRO(x);
}
extern int own_version __attribute__((aligned(8)));

#ifdef __cplusplus
}
#endif

#endif
