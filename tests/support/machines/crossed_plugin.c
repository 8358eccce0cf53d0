// SPDX-License-Identifier: Apache-2.0
// Calls the library from its constructor, and when it is asked to.

int add(int, int);
int callback(int);

static __attribute__((constructor)) void come(void)
{
	callback(add(1, 1));
}

int plugin(int n)
{
	int sum = 0;

	while (n--)
		sum = add(sum, n);
	return sum;
}
