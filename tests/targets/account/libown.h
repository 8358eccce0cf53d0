// SPDX-License-Identifier: Apache-2.0
// A library of one's own: its types are known by its debug information alone.
struct small {
	int a;
	double b;
};
struct pair {
	double x, y;
};
struct large {
	long a[4];
	double b;
};
struct flags {
	unsigned low : 3;
	int high : 5;
};

struct tight {
	signed char a;
	long b;
	int c;
} __attribute__((packed));

int own_six(int a, int b, int c, int d, int e, int f);
long own_fifteen(int a, long b, short c, signed char d, unsigned e, unsigned long f, int g, long h,
		 int i, double j, int k, float l, const char *m, int n, long o);
double own_floats(double a, double b, double c, double d, double e, double f, double g, double h,
		  double i, double j);
struct small own_small(struct small s, int n);
struct pair own_pair(struct pair p);
struct large own_large(struct large l, int n);
long double own_wide(long double a, int b, long double c);
float own_float(float a, char b);
_Bool own_bool(_Bool a, unsigned char b);
unsigned long own_unsigned(unsigned long a, unsigned short b, unsigned char c);
const char *own_string(const char *s);
void own_nothing(long long a);
struct tight own_tight(struct tight a, int n, const struct tight *b);
