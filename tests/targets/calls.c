// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf,mid
// Plain calls of every kind of slot that the build makes: from the program, from
// a library, of a function that is called once, often and never.
#include "leaf.h"
#include "mid.h"
#include "truth.h"

#include <stdio.h>

COUNTED(f0);
COUNTED(f1);
COUNTED(f2);
COUNTED(f8);
COUNTED(gmid);

int main(int argc, char **argv)
{
	int x = argc - 1;
	(void)argv;
	for (int i = 0; i < 500; i++)
		x = CALL(f0, x);
	for (int i = 0; i < 300; i++)
		x += CALL(f1, i) & 1;
	for (int i = 0; i < 10; i++)
		x += CALL(gmid, x, 20);
	long y = CALL(f8, x, 2, 3, 4, 5, 6, 7, 8);
	if (argc > 99)
		y += CALL(f2, x);
	REPORT(f0);
	REPORT(f1);
	REPORT(f2);
	REPORT(f8);
	REPORT(gmid);
	gmid_report();
	printf("calls %d %ld\n", x, y);
	return 0;
}
