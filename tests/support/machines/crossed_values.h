// SPDX-License-Identifier: Apache-2.0
// What crossed_values.c calls: values of many types, in many places.

short narrow(short a, unsigned short b, int c, unsigned int d, _Bool e);
unsigned short narrow_unsigned(unsigned short a);
long longs(long a, unsigned long b, long c, long d, long e, long f, long g, unsigned long h,
	   long i);
long long pairs(int a, long long b, int c, unsigned long long d, int e, long long f, int g);
unsigned long long pair_last(int a, int b, int c, unsigned long long d, int e);
double doubles(double a, double b, double c, double d, double e, double f, double g, double h,
	       double i, double j, double k, double l, double m, double n, double o);
float floats(float a, float b, float c, float d, float e, float f, float g, float h, float i,
	     float j, float k, float l, float m, float n, float o, float p, float q);
double mixed(int a, double b, long c, float d, long long e, double f, short g, float h, int i,
	     double j, float k, long l);
float single_last(int a, int b, int c, int d, int e, int f, int g, int h, float i, double j);
long double extended(long double a, int b, long double c);

struct tiny {
	short a;
};
struct pair {
	int a;
	int b;
};
struct one {
	float f;
};
struct point {
	double x;
	double y;
};
struct three {
	float x;
	float y;
	float z;
};
struct part {
	int i;
	float f;
};
struct large {
	int a;
	float b;
	short c;
	int d;
	int e;
};

struct named {
	const char *name;
	short k;
	double weight;
	int n;
};

union either {
	int i;
	float f;
};
union small {
	float f[2];
	struct {
		float x;
		float y;
	} p;
};
struct tagged {
	int kind;
	union either value;
};
union wide {
	double d;
	float f;
};

struct quad {
	double a;
	double b;
	double c;
	double d;
};

int quads(double a, double b, struct quad c, struct quad d, struct quad e, double f, int g);
int filled(float a, double b, struct three c, float d, float e, union small f, struct three g,
	   struct three h, int i, struct one j);
union either either(int n, union either e, float by);
union small small(union small s, int n, double x);
struct tagged tagged(int n, struct tagged t);
union wide wide(int n, union wide w, double by);
float _Complex turned(int n, float _Complex z, float by);
double _Complex turned_wide(int n, double _Complex z, double by);
int complexes(float _Complex a, int b, double _Complex c, float d, float _Complex e,
	      double _Complex f, double _Complex g, float _Complex h, float _Complex i,
	      double _Complex j, int k, float _Complex l, double m);
int weighed(const struct named *n, int x);
int passed(int x, struct named n, int y);
struct tiny tiny(struct tiny t, int n);
struct pair swap(struct pair p, int n);
struct one one(int n, struct one o, double x);
struct point point(struct point p, double by, int n);
struct three three(int n, struct three t, float by);
struct part part(long before, struct part p, int behind);
struct large large(struct large l, int n, double x);
int many(int a, int b, int c, int d, int e, int f, int g, struct pair p, int h, struct large l,
	 int i);
