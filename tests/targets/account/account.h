// SPDX-License-Identifier: Apache-2.0
// What a program says of its own calls: JSON Lines into the file that its first argument names,
// written when it ends. Nothing here calls a library.
#pragma once
#include <sys/syscall.h>

static char told[1 << 20];
static unsigned long told_size;

static void put(const char *text)
{
	while (*text)
		told[told_size++] = *text++;
}

static void put_number(unsigned long number)
{
	char digits[24], *at = digits + sizeof(digits) - 1;

	*at = 0;
	do
		*--at = '0' + number % 10;
	while (number /= 10);
	put(at);
}

static void put_signed(long number)
{
	if (number < 0)
		put("-");
	put_number(number < 0 ? -(unsigned long)number : (unsigned long)number);
}

static void put_bytes(const void *from, long size)
{
	const unsigned char *bytes = from;

	put("\"");
	for (long i = 0; i < size; i++) {
		told[told_size++] = "0123456789abcdef"[bytes[i] >> 4];
		told[told_size++] = "0123456789abcdef"[bytes[i] & 15];
	}
	put("\"");
}

static void put_string(const char *string)
{
	long size = 0;

	if (!string) {
		put("null");
		return;
	}
	while (string[size])
		size++;
	put_bytes(string, size);
}

static void put_wide(const __WCHAR_TYPE__ *string)
{
	long size = 0;

	while (string && string[size])
		size++;
	if (string)
		put_bytes(string, 4 * size);
	else
		put("null");
}

static long raw(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static void put_all(const char *path)
{
	long file = raw(SYS_open, (long)path, 01101, 0600); // O_WRONLY | O_CREAT | O_TRUNC

	raw(SYS_write, file, (long)told, told_size);
	raw(SYS_close, file, 0, 0);
}
