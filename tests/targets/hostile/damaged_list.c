/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose loader has a damaged list of images, as a wild pointer leaves it. The argument
 * says how: "cycle" (the last one leads to the first), "itself" (one leads to itself), "many" (a
 * million that are no images), "fewer" (six thousand), "name" (a gigabyte without an end). Prints
 * "ready", calls getenv until a line comes, and ends with 7.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct link_map *last(void)
{
	struct link_map *map = _r_debug.r_map;

	while (map->l_next)
		map = map->l_next;
	return map;
}

static void *bytes(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		exit(9);
	return at;
}

static void add(long count, const char *name)
{
	struct link_map *map = bytes((size_t)count * sizeof(*map)), *end = last();

	for (long i = 0; i < count; i++) {
		map[i].l_name = (char *)(uintptr_t)name;
		map[i].l_ld = _r_debug.r_map->l_ld;
		map[i].l_prev = end;
		end = end->l_next = &map[i];
	}
}

// A gigabyte of letters, in one page of a file.
static const char *endless(void)
{
	const size_t size = 1 << 30, part = 2 << 20;
	char *at = bytes(size);
	int fd = memfd_create("letters", 0);

	if (fd < 0 || ftruncate(fd, (off_t)part) < 0)
		exit(9);
	for (size_t i = 0; i < size; i += part)
		if (mmap(at + i, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
			exit(9);
	memset(at, 'a', part);
	return at;
}

int main(int argc, char **argv)
{
	struct pollfd line = {.fd = 0, .events = POLLIN};
	const char *how = argc > 1 ? argv[1] : "";

	if (!strcmp(how, "cycle"))
		last()->l_next = _r_debug.r_map;
	else if (!strcmp(how, "itself"))
		_r_debug.r_map->l_next->l_next = _r_debug.r_map->l_next;
	else if (!strcmp(how, "many"))
		add(1000000, "/lib/x.so");
	else if (!strcmp(how, "fewer"))
		add(6000, "/lib/x.so");
	else if (!strcmp(how, "name"))
		add(1, endless());
	puts("ready");
	fflush(stdout);
	while (poll(&line, 1, 1) == 0)
		for (int i = 0; i < 10; i++)
			getenv("HOME");
	_exit(7);
}
