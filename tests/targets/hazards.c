// SPDX-License-Identifier: Apache-2.0
// target: libs=hazards; ldflags=-pthread; status=5
#include "hazards.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define HAZARD_NAME(name) #name,
static const char *const names[] = {HAZARDS(HAZARD_NAME)};

static void tell(void)
{
	for (int i = 0; i < HAZARDS_COUNT; i++)
		if (hazard_counts[i])
			printf("calls %s %lu\n", names[i], hazard_counts[i]);
}

static void say(const char *what, uint64_t result)
{
	printf("%s %lu\n", what, result);
}

int main(void)
{
	struct big big = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};
	struct mixed all;
	pthread_t thread;
	void *ended;

	setvbuf(stdout, NULL, _IOLBF, 0);
	atexit(tell);
	say("fib", fib(16));
	say("dive", dive(10000));
	say("even", even(1000));
	say("land", land(300));
	say("nest", nest(100));
	say("aligned", aligned(1, 2, 3, 4, 5, 6, 7, big) + aligned(300, 1, 1, 1, 1, 1, 1, big));
	say("rooms", rooms(40));
	printf("sums %g\n", sums(10, 1l, 2.5, 3l, 4.5, 5l, 6.5, 7l, 8.5, 9l, 10.5));
	all = mixed(1.5, 2.5f, 3, 4.25L);
	printf("mixed %g %g %ld\n", all.a, (double)all.b, all.c);
	say("sorted", sorted(250));
	say("signalled", signalled());
	say("switched", switched(50));
	say("borrowed", borrowed());
	say("spawned", spawned());
	say("twice", twice(50));
	for (uintptr_t i = 0; i < 60; i++) {
		pthread_create(&thread, NULL, ends, (void *)(i % 5));
		pthread_join(thread, &ended);
		say("ends", (uint64_t)ended);
	}
	leaves(5);
}
