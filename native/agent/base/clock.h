// SPDX-License-Identifier: Apache-2.0
/** The processor's clock, for records, and the kernel's clocks, for code off the call path. */
#ifndef SOSC_CLOCK_H
#define SOSC_CLOCK_H

#include "base/arch.h"

#pragma GCC visibility push(hidden)

extern uint8_t sosc_clock_off;
extern uint64_t sosc_tsc_start; // the starts of calls are counted from this tsc

/** Return the time stamp counter, or 0 if the program has forbidden reading it. */
static inline uint64_t sosc_ticks(void)
{
	if (sosc_clock_off)
		return 0;
	return sosc_read_counter();
}

/** Return how many ticks have passed since @start, a value of sosc_ticks. */
static inline uint64_t sosc_ticks_since(uint64_t start)
{
	uint64_t now = sosc_ticks();

	return now > start ? now - start : 0;
}

enum { SOSC_RATE_BITS = 10 };

uint64_t sosc_clock_ns(int clock);
uint64_t sosc_clock_rate(uint64_t now);
uint64_t sosc_wait(const uint32_t *word, uint32_t value, uint32_t ns);
bool sosc_is_over(uint64_t until);

#pragma GCC visibility pop

#endif
