// SPDX-License-Identifier: Apache-2.0
// Calls a private library's functions that have others' names, and the C library's.
#include <stdio.h>
#include <unistd.h>

int compress(int a, int b);
long error(long a, long b);
int login(int a);
unsigned long strlen(const char *s);

int main(int argc, char **argv)
{
	printf("%d %ld %d %lu %d\n", compress(7, 9), error(7, 8), login(argc), strlen(argv[0]),
	       access("/", R_OK));
	return 0;
}
