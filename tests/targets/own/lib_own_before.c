// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: stands in for a function of the C library.

int access(const char *path, int mode)
{
	return path[0] == '/' && mode == 4 ? 0 : -1;
}
