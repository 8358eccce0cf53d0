// SPDX-License-Identifier: Apache-2.0
// Calls functions of every kind of type, and says of each call what it passed and got.
#include "own_types.h"

#include <complex.h>
#include <stdio.h>

static double twice(double x, void *argument)
{
	return 2 * x + *(double *)argument;
}

static const char *name_of(enum color c)
{
	return c == RED ? "RED" : c == GREEN ? "GREEN" : "BLUE";
}

int main(void)
{
	point a = {0, -1.5}, b = {3, 4.25};
	printf("own_distance({x=%.17g, y=%.17g}, {x=%.17g, y=%.17g})", a.x, a.y, b.x, b.y);
	printf(" = %.17g\n", own_distance(a, b));
	printf("own_middle({x=%.17g, y=%.17g}, {x=%.17g, y=%.17g})", a.x, a.y, b.x, b.y);
	a = own_middle(&a, &b);
	printf(" = {x=%.17g, y=%.17g}\n", a.x, a.y);

	struct pair p = {-3, 0.5f};
	printf("own_scale({a=%d, b=%.9g}, %.9g)", p.a, (double)p.b, 3.0);
	printf(" = %.9g\n", (double)own_scale(p, 3));
	struct mixed m = {40, 1.5};
	printf("own_mix({n=%ld, d=%.17g}, %d)", m.n, m.d, -2);
	m = own_mix(m, -2);
	printf(" = {n=%ld, d=%.17g}\n", m.n, m.d);
	struct turned t = {1e300, 'y'};
	printf("own_turn({d=1e+300, c='%c'})", t.c);
	t = own_turn(t);
	printf(" = {d=-1e+300, c='%c'}\n", t.c);
	struct few f = {1, 2, 255};
	printf("own_few({a=%d, b=%d, c=%d})", f.a, f.b, f.c);
	f = own_few(f);
	printf(" = {a=%d, b=%d, c=%d}\n", f.a, f.b, f.c);
	struct three three = {1, -2, 0.25f};
	printf("own_three({x=%.9g, y=%.9g, z=%.9g}, 4)", (double)three.x, (double)three.y,
	       (double)three.z);
	three = own_three(three, 4);
	printf(" = {x=%.9g, y=%.9g, z=%.9g}\n", (double)three.x, (double)three.y, (double)three.z);
	struct big big = {{1, -2, 1L << 62}, "tom\t"};
	printf("own_grow({n=[%ld, %ld, %ld], name=\"tom\\t\"}, %d)", big.n[0], big.n[1], big.n[2],
	       10);
	big = own_grow(big, 10);
	printf(" = {n=[%ld, %ld, %ld], name=\"uom\\t\"}\n", big.n[0], big.n[1], big.n[2]);
	struct bits bits = {2, 9, -5, (1L << 40) - 2};
	printf("own_flip({a=%u, b=%u, c=%d, d=%lu})", bits.a, bits.b, bits.c,
	       (unsigned long)bits.d);
	bits = own_flip(bits);
	printf(" = {a=%u, b=%u, c=%d, d=%lu}\n", bits.a, bits.b, bits.c, (unsigned long)bits.d);
	struct nested nested = {{7, 8, 9}, {.f = 1.0f}};
	printf("own_nest({few={a=%d, b=%d, c=%d}, i=%d, f=%.9g})", nested.few.a, nested.few.b,
	       nested.few.c, nested.i, (double)nested.f);
	nested = own_nest(nested);
	printf(" = {few={a=%d, b=%d, c=%d}, i=%d, f=%.9g}\n", nested.few.a, nested.few.b,
	       nested.few.c, nested.i, (double)nested.f);

	printf("own_part(%Lg, %d) = %Lg\n", 3.0L, -4, own_part(3.0L, -4));
	wave w = own_turned(1.5 - 2.0 * I, 2);
	printf("own_turned(1.5-2i, 2) = %g%+gi\n", creal(w), cimag(w));
	printf("own_next(%s, HIGH) = %s\n", name_of(GREEN), name_of(own_next(GREEN, HIGH)));
	printf("own_next(%s, LOW) = %s\n", name_of(RED), name_of(own_next(RED, LOW)));
	printf("own_allow(READ|EXEC) = %u\n", own_allow(READ | EXEC));
	printf("own_not(true) = %s\n", own_not(1) ? "true" : "false");
	printf("own_name(\"\\001key\\377\", %d) = \"%s\\377\"\n", 200, "key");
	own_name("\001key\377", 200);
	printf("own_name(nil, 201) = %s\n", own_name(NULL, 201) ? "not nil" : "nil");
	double more = 0.25;
	double applied = own_apply(twice, 21, &more);
	printf("own_apply(%p, 21, %p) = %.17g\n", (void *)twice, (void *)&more, applied);
	long sum = own_sum(1, 2, 3, 4, 5, 6, 2147483647, -8, 9.5, 10.25f, 1L << 40, -12, 'm', 255);
	printf("own_sum(1, 2, 3, 4, 5, 6, 2147483647, -8, 9.5, 10.25, %ld, -12, 'm', 255) = %ld\n",
	       1L << 40, sum);
	printf("own_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 0.5) = %.17g\n",
	       own_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 0.5f));
	m.n = 7;
	point spilt = own_spill(1, 2, 3, 4, 5, m, f, 1000);
	printf("own_spill(1, 2, 3, 4, 5, {n=%ld, d=%.17g}, {a=%d, b=%d, c=%d}, 1000)", m.n, m.d,
	       f.a, f.b, f.c);
	printf(" = {x=%.17g, y=%.17g}\n", spilt.x, spilt.y);
	printf("own_small(-128, 65535, -9223372036854775807) = %d\n",
	       own_small(-128, 65535, -9223372036854775807));
	own_nothing();
	printf("own_nothing() = <void>\n");
	return 0;
}
