// SPDX-License-Identifier: Apache-2.0
/* What is replaced; patchee_inside calls it through this library's own slot. */
int patchee(int x);
int patchee(int x)
{
	return x * 2;
}

int patchee_inside(int x);
int patchee_inside(int x)
{
	return patchee(x);
}
