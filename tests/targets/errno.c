// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; select=open@MAIN,close@MAIN,f0@MAIN,ferr@MAIN
// errno is the program's: kept across calls that leave it alone, and a failure's
// value is there afterwards.
#include "leaf.h"
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

COUNTED(open);
COUNTED(close);
COUNTED(f0);
COUNTED(ferr);

int main(void)
{
	for (int i = 0; i < 50; i++) {
		errno = 0;
		CHECK(CALL(open, "/nonexistent/file", O_RDONLY) == -1 && errno == ENOENT);
		CHECK(CALL(close, -1) == -1 && errno == EBADF);
		errno = 1234 + i;
		CHECK(CALL(f0, i) == i + 1);
		CHECK(errno == 1234 + i);
		CHECK(CALL(ferr, 71) == -1 && errno == 71);
	}
	REPORT(open);
	REPORT(close);
	REPORT(f0);
	REPORT(ferr);
	puts("errno right");
	return 0;
}
