// SPDX-License-Identifier: Apache-2.0
// Counts its own calls, whoever makes them.
#include <stdio.h>
#include <stdlib.h>

static int counted[8];
static const char *const names[] = {"add", "eight", "half", "again", "callback", "text"};

int add(int a, int b)
{
	counted[0]++;
	return a + b;
}

long eight(long a, long b, long c, long d, long e, long f, long g, long h)
{
	counted[1]++;
	return a + b + c + d + e + f + g + h;
}

double half(int before, double x, long behind)
{
	counted[2]++;
	return x / 2 + before - (double)behind;
}

int again(int n, int (*more)(int))
{
	counted[3]++;
	return n ? more(n - 1) + 1 : 0;
}

int callback(int n)
{
	counted[4]++;
	return n;
}

const char *text(const char *what)
{
	counted[5]++;
	return *what ? what + 1 : what;
}

void account(void)
{
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (counted[i])
			fprintf(stderr, "%s %d\n", names[i], counted[i]);
}
