// SPDX-License-Identifier: Apache-2.0
// target: script=lib_versions.map
int fver_new(int x);
int fver_old(int x);

int fver_new(int x)
{
	return x + 100;
}

int fver_old(int x)
{
	return x + 1;
}

__asm__(".symver fver_new, fver@@VERS_2");
__asm__(".symver fver_old, fver@VERS_1");
