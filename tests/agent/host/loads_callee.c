// SPDX-License-Identifier: Apache-2.0
// The other side of loads_known.c: what is called, and what is given its address.
long callee(long x)
{
	return x * 5 + 1;
}

long other(long x)
{
	return x ^ 0x55;
}

long take(long (*function)(long), long x)
{
	return (long)function + x;
}

long (*sink)(long) = callee;
volatile long noise = 3;

// Every run of a function begins in the same state.
void reset(void)
{
	sink = callee;
	noise = 3;
}
