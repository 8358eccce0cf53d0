// SPDX-License-Identifier: Apache-2.0
// Three small functions, for a compiler to have them report their calls.

#define ALONE __attribute__((noinline, noclone))

ALONE unsigned long leaf(unsigned long x)
{
	return x * 3 + 1;
}

ALONE unsigned long mid(unsigned long x)
{
	return leaf(x) ^ 3 * leaf(x + 1);
}

ALONE unsigned long fib(unsigned n)
{
	return n < 2 ? n : fib(n - 1) ^ 3 * fib(n - 2);
}
