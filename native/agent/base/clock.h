// SPDX-License-Identifier: Apache-2.0
/**
 * The processor's clock, for records, and the kernel's, for what happens off the call path.
 */
#ifndef SOSC_CLOCK_H
#define SOSC_CLOCK_H

#include "base/arch.h"

#pragma GCC visibility push(hidden)

extern uint8_t sosc_clock_off;
extern uint64_t sosc_tsc_start; // what the starts of calls are counted from

/** What the processor's clock says; 0 where the program has forbidden it. */
static inline uint64_t sosc_ticks(void)
{
	if (sosc_clock_off)
		return 0;
	return sosc_read_counter();
}

/** How many ticks it has been since @start, which the processor's clock said. */
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
