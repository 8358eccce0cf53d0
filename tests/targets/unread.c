// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fno-builtin
// Pointers that the functions they are given to, or that return them, never follow.
#define _GNU_SOURCE
#include "truth.h"

#include <errno.h>
#include <glob.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static int list(char *to, size_t size, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(to, size, format, arguments);
	va_end(arguments);
	return length;
}

// Skips words, as readers of /proc do; other registers than `n` hold what was left there.
static int scan(const char *line, int *n, long left, long over)
{
	(void)left;
	(void)over;
	return sscanf(line, "%*s %*d %d", n);
}

int main(void)
{
	char line[64] = "";
	wchar_t text[64] = L"";
	int n = 0;
	void *area = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED);
	const char *nothing = area;

	CHECK(scan("cpu 41 42", &n, 0x1234567, 0x1234567) == 1 && n == 42);
	CHECK(sscanf("", "%s", area) == EOF);
#ifdef __GLIBC__
	CHECK(nl_langinfo(_NL_TIME_WEEK_1STDAY) != NULL); // a date: 19971130
	CHECK(strerror_r(99999, area, 0) == area);
#else
	CHECK((long)strerror_r(ENOENT, line, 4) == ERANGE);
#endif
	FILE *read = fopen("/dev/null", "r");
	CHECK(read && fprintf(read, "%s", nothing) == -1);
	CHECK(snprintf(line, sizeof line, "%2147483648d %d%s", 1, 2, nothing) == -1); // too wide
	CHECK(list(line, sizeof line, "%2147483648d %d%s", 1, 2, nothing) == -1);
	static const wchar_t odd[] = {0x110000, 0}; // no character
	CHECK(snprintf(line, sizeof line, "%ls%s", odd, nothing) == -1);
	CHECK(list(line, sizeof line, "%ls%s", odd, nothing) == -1);
	CHECK(snprintf(area, 0, "%d", 1234) == 4 && list(area, 0, "%d", 1234) == 4);
	CHECK(snprintf(line, sizeof line, "%.0s%.*s", nothing, 0, nothing) == 0);
	FILE *written = fopen("/dev/null", "w");
	CHECK(written && fscanf(written, nothing, line) == EOF);
	FILE *none = popen(nothing, "r"); // the child could not be made, or has failed
	CHECK(!none || pclose(none) != 0);
	CHECK(popen(nothing, "neither") == NULL);
	struct tm date = {0};
	CHECK(strptime(nothing, "", &date) == nothing);
#ifdef __GLIBC__
	glob_t paths;
	CHECK(glob(nothing, 1 << 30, NULL, &paths) == -1); // no such flag
	CHECK(strverscmp(nothing, nothing) == 0);
	CHECK(dprintf(-1, nothing) == -1);
#endif
	const wchar_t *wide = area;
	CHECK(wcsnlen(wide, 0) == 0 && wcsncmp(wide, wide, 0) == 0);
	CHECK(wcsstr(wide, L"") == wide);
#ifdef __GLIBC__
	CHECK(wcspbrk(L"", wide) == NULL && wcsspn(L"", wide) == 0 && wcscspn(L"", wide) == 0);
	CHECK(fwprintf(read, L"%ls", wide) == -1);
#endif
	CHECK(wcsncpy(text, wide, 0) == text && wcsncat(text, wide, 0) == text);
	CHECK(wmemcmp(wide, wide, 0) == 0 && wmemchr(wide, L'x', 0) == NULL);
	CHECK(swprintf(text, 0, wide) == -1);
	CHECK(memcpy(area, nothing, 0) == area && memmove(line, nothing, 0) == line);
	CHECK(memcmp(nothing, nothing, 0) == 0 && memcmp(line, nothing, 0) == 0);
	CHECK(memrchr(nothing, 'x', 0) == NULL && memmem(line, 1, nothing, 0) == line);
	CHECK(printf("done\n") == 5);
	return 0;
}
