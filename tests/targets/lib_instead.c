// SPDX-License-Identifier: Apache-2.0
/* What stands in patchee's place. Its own call of patchee must reach the original. */
#include <stdlib.h>

int patchee(int x);
int (*patchee_original)(int);

int instead(int x);
int instead(int x)
{
	return patchee_original(x) + 1000;
}

int instead_by_name(int x);
int instead_by_name(int x)
{
	return patchee(x) + 2000;
}

int instead_dies(int x);
int instead_dies(int x)
{
	abort();
	return x;
}
