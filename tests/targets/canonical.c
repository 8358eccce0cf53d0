// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf,address; pie=no
// A program at a fixed address: the address of f0 is this program's own PLT entry
// for the whole process, and a library that calls through it comes by here.
#define _GNU_SOURCE
#include "address.h"
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>

COUNTED(f0);

int main(void)
{
	int sum = 0;
	int (*mine)(int) = f0;
	CHECK(mine == gaddress());
	CHECK(mine == (int (*)(int))dlsym(RTLD_DEFAULT, "f0"));
	for (int i = 0; i < 100; i++)
		sum += CALL(f0, i);
	for (int i = 0; i < 40; i++) { // lands in the program's PLT entry
		sum += mine(i);
		COUNT(f0);
	}
	REPORT(f0);
	printf("canonical %d\n", sum);
	return 0;
}
