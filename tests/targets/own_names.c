// SPDX-License-Identifier: Apache-2.0
// target: libs=own_names; cflags=-fno-builtin
// Calls another library's functions that have the names of the C library's.
#include "truth.h"

int index(int i, int j);
char *strerror(int number);
char *strsep(int a, int b);
unsigned long strnlen(unsigned long a, unsigned long b);

COUNTED(index);
COUNTED(strerror);
COUNTED(strsep);
COUNTED(strnlen);

int main(void)
{
	enum { NOWHERE = 0x7fff0000 };

	for (int i = 0; i < 100; i++) {
		CHECK(CALL(index, NOWHERE, i) == NOWHERE + i);
		CHECK((long)CALL(strerror, i) == NOWHERE + i);
		CHECK((long)CALL(strsep, NOWHERE, i) == (NOWHERE ^ i));
		CHECK(CALL(strnlen, NOWHERE, (unsigned long)i) ==
		      (unsigned long)NOWHERE + (unsigned long)i);
	}
	REPORT(index);
	REPORT(strerror);
	REPORT(strsep);
	REPORT(strnlen);
	return 0;
}
