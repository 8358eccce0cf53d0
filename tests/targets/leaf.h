// SPDX-License-Identifier: Apache-2.0
// libleaf: functions that call nothing, one per way of passing and returning.
#ifndef SOSC_LEAF_H
#define SOSC_LEAF_H
#ifdef __cplusplus
extern "C" {
#endif

struct big {
	long word[512]; // 4 KiB, passed and returned in memory
};

struct mixed {
	long a; // rax
	double b; // xmm0
};

int f0(int x); // x + 1
int f1(int x); // x + 2
int f2(int x); // x + 3
long f8(long a, long b, long c, long d, long e, long f, long g, long h);
double fd10(double a, double b, double c, double d, double e, double f, double g, double h,
	    double i, double j);
float ff(float a);
long double fld(long double a, long double b);
struct big fbig(struct big value, int x);
struct mixed fmixed(long a, double b);
#ifdef __SIZEOF_INT128__
__int128 fint128(long a, long b);
#endif
long fva(int count, ...); // sum of count longs, each times its place
double fvad(int count, ...); // same of doubles
int fcall(int (*callback)(int), int x); // callback(x) + 1
void *fcallp(void *(*callback)(void *), void *argument);
int ferr(int error); // errno = error; -1
const char *fstr(const char *text); // text
void fnone(void);

#ifdef __cplusplus
}
#endif
#endif
