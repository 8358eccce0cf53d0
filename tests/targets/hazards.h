// SPDX-License-Identifier: Apache-2.0
// Functions that leave, enter and use their frames in unusual ways. Each counts its own calls.
#ifndef HAZARDS_H
#define HAZARDS_H

#include <stdint.h>

#define HAZARDS(ONE)   \
	ONE(fib)       \
	ONE(dive)      \
	ONE(even)      \
	ONE(odd)       \
	ONE(leap)      \
	ONE(land)      \
	ONE(adds)      \
	ONE(nest)      \
	ONE(aligned)   \
	ONE(rooms)     \
	ONE(sums)      \
	ONE(mixed)     \
	ONE(ordered)   \
	ONE(sorted)    \
	ONE(handled)   \
	ONE(signalled) \
	ONE(switched)  \
	ONE(coroutine) \
	ONE(borrowed)  \
	ONE(spawned)   \
	ONE(twice)     \
	ONE(ends)      \
	ONE(leaves)

#define HAZARD_NUMBER(name) N_##name,
enum { HAZARDS(HAZARD_NUMBER) HAZARDS_COUNT };
extern uint64_t hazard_counts[HAZARDS_COUNT];

struct mixed {
	double a;
	float b;
	long c;
};

struct big {
	uint64_t words[9];
};

uint64_t fib(unsigned n);
uint64_t dive(unsigned n);
uint64_t even(uint64_t n);
uint64_t leap(unsigned depth);
uint64_t land(unsigned times);
uint64_t nest(uint64_t n);
uint64_t rooms(unsigned n);
uint64_t aligned(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
		 struct big h);
double sums(int count, ...);
struct mixed mixed(double a, float b, long c, long double d);
uint64_t sorted(unsigned count);
uint64_t signalled(void);
uint64_t switched(unsigned rounds);
uint64_t borrowed(void);
uint64_t spawned(void);
uint64_t twice(unsigned times);
void *ends(void *n);
void leaves(int status);

#endif
