// SPDX-License-Identifier: Apache-2.0
// target: libs=patchee
/* A library that comes late and calls the function that is replaced. */
int patchee(int x);

int patchee_late(int x);
int patchee_late(int x)
{
	return patchee(x);
}
