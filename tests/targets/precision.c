// SPDX-License-Identifier: Apache-2.0
// target: select=snprintf@MAIN
// Precisions say how much of a string a format reads: of a page's last bytes, of nothing that is
// there, of another number than the format's own.
#define _GNU_SOURCE
#include "truth.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

COUNTED(snprintf);

int main(void)
{
	char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *edge = map + 4096, to[64];

	CHECK(map != MAP_FAILED && munmap(edge, 4096) == 0);
	memcpy(edge - 3, "ABC", 3);
	CHECK(CALL(snprintf, to, sizeof(to), "1%.0s", edge - 3) == 1);
	CHECK(CALL(snprintf, to, sizeof(to), "2%.*s", 0, edge - 3) == 1);
	CHECK(CALL(snprintf, to, sizeof(to), "3%.s", edge) == 1);
	CHECK(CALL(snprintf, to, sizeof(to), "4%.3s", edge - 3) == 4);
	CHECK(CALL(snprintf, to, sizeof(to), "5%*.*s", 9, 2, edge - 3) == 10);
	CHECK(CALL(snprintf, to, sizeof(to), "6%.*s", -1, "whole") == 6);
	REPORT(snprintf);
	puts("precisions");
	return 0;
}
