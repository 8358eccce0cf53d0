// SPDX-License-Identifier: Apache-2.0
// Writes random words over the memory that it shares with who traces it, and says what it did.
//
//	garbles SEED WHERE ROUNDS [wait]
//
// WHERE is a sum: 1 the first page, 2 names and tables, 4 the ring, 8 the counters, 16 anything.
// Each round calls getenv, in this thread and in another one, and then writes. The last line says
// how many calls of getenv there were. It ends without a call. With "wait" it says "ready", and
// begins as soon as there is such memory, or ends after ten seconds.

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, SECTIONS = 48, IMAGES = 3, COUNTS = 6, STATES = 7, RING = 8, ALL = 14 };
enum { CHUNK = 16384, HEADER = 64, SOME = 100, BLOCKS = 50 };

static uint64_t x;
static uint8_t *block, *plan;
static uint64_t size, section[ALL][2];
static volatile long calls;
static void *volatile kept[BLOCKS];

static long raw(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static uint64_t draw(void)
{
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static uint64_t word(void)
{
	static const uint64_t odd[] = {0,	  1,	      3,	  0xff,
				       0xffff,	  0x7fffffff, 0xffffffff, 1ull << 32,
				       INT64_MAX, 1ull << 63, UINT64_MAX, 0x4141414141414141};
	uint64_t which = draw();

	switch (which & 3) {
	case 0:
		return draw();
	case 1:
		return draw() & 0xffffffff;
	default:
		return odd[(which >> 8) % (sizeof(odd) / sizeof(*odd))];
	}
}

static uint64_t number(const char *text)
{
	uint64_t value = 0;

	for (; (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'f'); text++)
		value = value << 4 | (uint64_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
	return value;
}

// The lowest shared mapping of soscope's file, with those behind it: by system calls alone. Behind
// them lies the plan, which says where the sections are.
static void find(void)
{
	static char text[1 << 20];
	long fd = raw(SYS_open, (long)"/proc/self/maps", O_RDONLY, 0), got, used = 0;
	char *line = text;

	while ((got = raw(SYS_read, fd, (long)text + used, (long)sizeof(text) - 1 - used)) > 0)
		used += got;
	(void)raw(SYS_close, fd, 0, 0);
	while (*line) {
		char *end = line, *rest = line;
		uint64_t from = number(line);

		while (*end && *end != '\n')
			end++;
		while (*rest != '-')
			rest++;
		if (end - line > 60 && rest[1] &&
		    memmem(line, (size_t)(end - line), "memfd:soscope", 13)) {
			uint64_t to = number(rest + 1);
			bool is_block = memmem(line, (size_t)(end - line), "rw-s", 4);

			if (is_block && !block)
				block = (uint8_t *)from;
			if (block && (uint64_t)block + size == from) {
				if (is_block)
					size = to - (uint64_t)block;
				else if (!plan && memmem(line, (size_t)(end - line), "r--s", 4))
					plan = (uint8_t *)from;
			}
		}
		line = *end ? end + 1 : end;
	}
	if (plan)
		memcpy(section, plan + SECTIONS, sizeof(section));
}

static void put(uint64_t at)
{
	if (at + 8 <= size)
		*(volatile uint64_t *)(block + (at & ~7ull)) = word();
}

static void in_ring(void)
{
	uint64_t chunks = section[STATES][1] / 4,
		 chunk = draw() % (chunks < 8 ? chunks + !chunks : 8);
	uint64_t at = section[RING][0] + chunk * CHUNK;

	if (!chunks)
		return;
	if (draw() & 1)
		put(at + draw() % HEADER);
	for (int i = 0; i < SOME; i++)
		put(at + HEADER + draw() % (CHUNK / 4));
	if (draw() & 1)
		block[section[STATES][0] + 4 * chunk] = (uint8_t)(draw() % 5);
}

static void in_section(int which, uint64_t most)
{
	uint64_t room = section[which][1] < most ? section[which][1] : most;

	if (room)
		put(section[which][0] + draw() % room);
}

static void garble(unsigned where)
{
	for (int i = 0; where & 1 && i < 3; i++)
		put(draw() % 600);
	for (int i = 0; where & 2 && i < SOME; i++) {
		static const int tables[] = {IMAGES, 4, 5, 10};

		in_section(tables[draw() % 4], 8192);
	}
	for (int i = 0; where & 4 && i < 4; i++)
		in_ring();
	for (int i = 0; where & 8 && i < SOME; i++)
		in_section(COUNTS, 65536);
	for (int i = 0; where & 8 && i < SOME; i++)
		put(PAGE + draw() % (1 << 21));
	for (int i = 0; where & 16 && i < 3 * SOME; i++)
		put(600 + draw() % (draw() & 1 ? 1 << 20 : 1 << 25));
}

static void *call(void *unused)
{
	(void)unused;
	for (int i = 0; i < SOME; i++) {
		(void)getenv("HOME");
		__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void say(long value)
{
	char text[24];
	int at = sizeof(text);

	text[--at] = '\n';
	do
		text[--at] = (char)('0' + value % 10);
	while (value /= 10);
	(void)raw(SYS_write, 1, (long)text + at, (long)sizeof(text) - at);
}

int main(int argc, char **argv)
{
	unsigned where = (unsigned)atoi(argv[argc > 2 ? 2 : 0]);
	int rounds = atoi(argv[argc > 3 ? 3 : 0]);
	pthread_t thread;

	x = (uint64_t)atoi(argv[argc > 1 ? 1 : 0]) * 0x9e3779b97f4a7c15ull + 1;
	for (int i = 0; i < BLOCKS; i++)
		kept[i] = malloc(64);
	for (int i = 0; i < 10; i++)
		(void)draw();
	if (argc > 4)
		(void)raw(SYS_write, 1, (long)"ready\n", 6);
	find();
	for (int i = 0; i < 1000 && argc > 4 && !block; i++) {
		struct timespec nap = {0, 10000000};

		(void)raw(SYS_nanosleep, (long)&nap, 0, 0);
		find();
	}
	for (int round = 0; round < rounds; round++) {
		if (pthread_create(&thread, NULL, call, NULL))
			return 3;
		(void)call(NULL);
		(void)pthread_join(thread, NULL);
		if (plan)
			garble(where);
		for (volatile int i = 0; i < 3000000; i++)
			;
	}
	say(calls);
	(void)raw(SYS_exit_group, block ? 7 : 8, 0, 0);
}
