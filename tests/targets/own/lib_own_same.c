// SPDX-License-Identifier: Apache-2.0
// Functions of a private library that have names of the C library's and of zlib's.

int compress(int a, int b)
{
	return a * b - 100;
}

long error(long a, long b)
{
	return a - b;
}

int login(int a)
{
	return a + 1;
}

unsigned long strlen(const char *s)
{
	unsigned long size = 0;

	while (*(const volatile char *)(s + size))
		size++;
	return size;
}
