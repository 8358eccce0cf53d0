// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; orphans=yes; cflags=-fno-stack-protector -U_FORTIFY_SOURCE
// Coroutines that copy their stack out and in, as greenlets and callcc do: while
// one is parked, its frames, return addresses included, lie in the heap only.
#include "leaf.h"
#include "truth.h"

#include <alloca.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARKED = 10, SWITCHES = 50, GAP = 4096 };

COUNTED(f0);
COUNTED(fcall);

static struct parked {
	jmp_buf at;
	char *copy;
	size_t size;
	int left;
} parked[PARKED];

static char *bottom; // a slice of the stack is [its end, bottom)
static jmp_buf home;
static int current;
static long sum;

// Copy the slice away and leave; come back when it was copied in again.
__attribute__((noinline)) static void park(struct parked *p)
{
	if (setjmp(p->at))
		return;
	char *top = (char *)__builtin_frame_address(0) - 1024;
	p->size = (size_t)(bottom - top);
	p->copy = realloc(p->copy, p->size);
	memcpy(p->copy, top, p->size);
	longjmp(home, 1);
}

static int inside(int number)
{
	sum += CALL(f0, number);
	park(&parked[current]);
	return number;
}

static int body(int number)
{
	while (parked[number].left-- > 0) {
		current = number;
		sum += CALL(fcall, inside, number);
	}
	longjmp(home, 2);
}

__attribute__((noinline)) static void resume(struct parked *p)
{
	// this frame must lie below the slice that is about to be written
	char *room = alloca(p->size + 2 * GAP);
	__asm__ volatile("" : : "r"(room) : "memory");
	memcpy(bottom - p->size, p->copy, p->size);
	longjmp(p->at, 1);
}

// Always called from one place: its gap separates main's frame from the slices.
__attribute__((noinline)) static void enter(int number)
{
	char *gap = alloca(GAP);
	__asm__ volatile("" : : "r"(gap) : "memory");
	CHECK(!bottom || bottom == gap + GAP / 2);
	bottom = gap + GAP / 2;
	current = number;
	if (parked[number].copy)
		resume(&parked[number]);
	CALL(fcall, body, number);
}

int main(void)
{
	volatile int turn = 0, ended = 0;
	for (int i = 0; i < PARKED; i++)
		parked[i].left = SWITCHES;
	while (ended < PARKED) {
		turn++;
		if (parked[turn % PARKED].left < 0)
			continue;
		int how = setjmp(home);
		if (how == 0)
			enter(turn % PARKED);
		if (how == 2)
			ended++;
	}
	REPORT(f0);
	REPORT(fcall);
	printf("stackcopy %ld %d\n", sum, turn);
	return 0;
}
