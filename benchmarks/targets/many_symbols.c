// SPDX-License-Identifier: Apache-2.0
// Loads libraries for everybody (RTLD_GLOBAL), says so, and waits.
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL)) {
			puts(dlerror());
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
