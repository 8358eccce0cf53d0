// SPDX-License-Identifier: Apache-2.0
// Functions that no slot leads to, which count their own calls.
#include <stdio.h>

int outer(int);
static int counted[2];

static __attribute__((noinline)) int inner(int n)
{
	counted[0]++;
	return n < 2 ? n : inner(n - 1) * 2 + 1;
}

__attribute__((noinline)) int outer(int n)
{
	counted[1]++;
	return inner(n) + inner(n + 1);
}

int main(void)
{
	int sum = outer(3) + outer(4);

	fprintf(stderr, "inner %d\nouter %d\n", counted[0], counted[1]);
	return sum & 1;
}
