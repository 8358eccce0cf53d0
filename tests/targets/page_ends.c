// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fno-builtin
// Strings that end where their page ends, with nothing behind: right for functions that stop
// before, or that are told how long they are.
#define _GNU_SOURCE
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

COUNTED(strchr);
COUNTED(strcmp);
COUNTED(strncmp);
COUNTED(strnlen);
COUNTED(strncpy);
COUNTED(strcspn);
COUNTED(printf);

static char *end; // of readable memory

static char *last(const char *text) // its end's end, without a NUL
{
	size_t size = strlen(text);
	return memcpy(end - size, text, size);
}

int main(void)
{
	char to[64] = "", line[64];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *area = mmap(0, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED && mprotect(area + 2 * page, page, PROT_NONE) == 0);
	end = area + 2 * page;

	CALL(printf, "%c\n", *CALL(strchr, last("key=val"), '='));
	CALL(printf, "%d\n", CALL(strcmp, last("abd"), "abc"));
	CALL(printf, "%d\n", CALL(strncmp, last("GET /"), "GET ", 4));
	CALL(printf, "%d\n", CALL(strncmp, end, "x", 0));
	CALL(printf, "%d\n", CALL(strncmp, "x", end, 0));
	CALL(printf, "%zu\n", CALL(strnlen, last("1234567"), 7));
	CALL(printf, "%zu\n", CALL(strnlen, end, 0));
	CALL(printf, "%s\n", CALL(strncpy, to, last("three"), 5));
	CALL(printf, "%s\n", CALL(strncpy, to, end, 0));
	CALL(printf, "%s\n", strncat(to, last("more"), 4));
	CALL(printf, "%s\n", strndup(last("copied"), 6));
	CALL(printf, "%zu\n", CALL(strcspn, last("a,b"), ","));
	CALL(printf, "%.5s\n", last("limit"));
	CALL(printf, "%.0s%.*s\n", end, 3, last("out"));
	CHECK(snprintf(line, sizeof line, "%.4s", last("four")) == 4);
	CALL(printf, "%s\n", line);
	// over a page's end, which is no end
	char *over = area + page - 3;
	strcpy(over, "crosses");
	CALL(printf, "%zu %s\n", strlen(over), CALL(strchr, over, 'o'));
	CALL(printf, "%zu\n", strspn(over, "crose"));
	CALL(printf, "%s\n", getenv("SOSC_NOT_THERE") ? "there" : "not there");
	REPORT(strchr);
	REPORT(strcmp);
	REPORT(strncmp);
	REPORT(strnlen);
	REPORT(strncpy);
	REPORT(strcspn);
	REPORT(printf);
	return 0;
}
