// SPDX-License-Identifier: Apache-2.0
#include "reported.h"

#define ALONE __attribute__((noinline, noclone))

ALONE uint64_t leaf(struct counts *counts, uint64_t x)
{
	counts->leaf++;
	return x * 3 + 1;
}

ALONE uint64_t mid(struct counts *counts, uint64_t x)
{
	counts->mid++;
	return leaf(counts, x) + leaf(counts, x + 1);
}

ALONE uint64_t fib(struct counts *counts, unsigned n)
{
	counts->fib++;
	// no compiler makes a loop of this
	return n < 2 ? n : (fib(counts, n - 1) + 7) / (1 + fib(counts, n - 2) % 5);
}

ALONE uint64_t even(struct counts *counts, unsigned n)
{
	counts->even++;
	return n == 0 ? 1 : odd(counts, n - 1) + 1;
}

ALONE uint64_t odd(struct counts *counts, unsigned n)
{
	counts->odd++;
	return n == 0 ? 0 : even(counts, n - 1) + 1;
}
