// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Every way of passing arguments and returning results.
#include "leaf.h"
#include "truth.h"

#include <stdio.h>
#include <string.h>

double _Complex fcx(double _Complex a);
long double _Complex flcx(long double _Complex a, int x);

COUNTED(f8);
COUNTED(fd10);
COUNTED(ff);
COUNTED(fld);
COUNTED(fcx);
COUNTED(flcx);
COUNTED(fbig);
COUNTED(fmixed);
COUNTED(fint128);
COUNTED(fva);
COUNTED(fvad);

#define TEN(x) x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9
#define FIFTY(x) TEN(x), TEN(x + 10), TEN(x + 20), TEN(x + 30), TEN(x + 40)

static long weighted(int count)
{
	long sum = 0;
	for (long i = 1; i <= count; i++)
		sum += i * i;
	return sum;
}

int main(void)
{
	static struct big big;
	for (int round = 0; round < 20; round++) {
		CHECK(CALL(f8, 1, 2, 3, 4, 5, 6, 7, 8 + round) == 204 + 8 * round);
		CHECK(CALL(fd10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10.5) == 390.0);
		CHECK(CALL(ff, 3.0f) == 1.5f);
		CHECK(CALL(fld, 1.0L, 3.0L) == 1.0L / 3.0L);
		double _Complex c = CALL(fcx, 2.0 + 5.0i);
		CHECK(__real__ c == 1.0 && __imag__ c == 17.0);
		long double _Complex l = CALL(flcx, 0.1L + 0.7il, round);
		CHECK(__real__ l == 0.1L + round && __imag__ l == 0.7L + 2.0L * round);
		for (int i = 0; i < 512; i++)
			big.word[i] = i * 7;
		struct big back = CALL(fbig, big, round);
		for (int i = 0; i < 512; i++)
			CHECK(back.word[i] == i * 7 + round * i);
		struct mixed m = CALL(fmixed, round, 1.0);
		CHECK(m.a == 3 * round && m.b == 0.25);
		__int128 w = CALL(fint128, 5 + round, 9);
		CHECK((long)(w >> 64) == 5 + round && (long)w == 9);
		CHECK(CALL(fva, 200, FIFTY(1L), FIFTY(51L), FIFTY(101L), FIFTY(151L)) ==
		      weighted(200));
		CHECK(CALL(fvad, 50, FIFTY(1.0)) == (double)weighted(50));
	}
	REPORT(f8);
	REPORT(fd10);
	REPORT(ff);
	REPORT(fld);
	REPORT(fcx);
	REPORT(flcx);
	REPORT(fbig);
	REPORT(fmixed);
	REPORT(fint128);
	REPORT(fva);
	REPORT(fvad);
	puts("values right");
	return 0;
}
