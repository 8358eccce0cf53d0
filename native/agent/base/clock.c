// SPDX-License-Identifier: Apache-2.0
// The kernel's clocks, read by system calls, for code off the call path.

#include "base/clock.h"
#include "base/agent.h"
#include "base/arch.h"
#include "base/state.h"
#include "base/sys.h"

uint8_t sosc_clock_off;
uint64_t sosc_tsc_start;

uint64_t sosc_clock_ns(int clock)
{
	struct {
		int64_t sec, nsec;
	} now = {0, 0};

	(void)sosc_sys3(SYS_CLOCK_GETTIME, clock, (long)&now, 0);
	return (uint64_t)now.sec * 1000000000 + (uint64_t)now.nsec;
}

/**
 * Return ticks per ns, << SOSC_RATE_BITS, from the session's beginning to @now, or 0 if the session
 * has only just begun.
 */
uint64_t sosc_clock_rate(uint64_t now)
{
	uint64_t ns = sosc_clock_ns(CLOCK_MONOTONIC_RAW) - sosc_control->monotonic_start;

	return ns ? ((now - sosc_tsc_start) << SOSC_RATE_BITS) / ns : 0;
}

/** Return whether the time @until has passed, in ns of CLOCK_MONOTONIC_RAW; 0 = never. */
bool sosc_is_over(uint64_t until)
{
	return until && sosc_clock_ns(CLOCK_MONOTONIC_RAW) >= until;
}

/**
 * Wait until *@word differs from @value, a waker or a signal comes, or @ns (below a second) have
 * passed. Return for how many ns the thread has waited, at most twice @ns.
 */
uint64_t sosc_wait(const uint32_t *word, uint32_t value, uint32_t ns)
{
	struct {
		int64_t sec, nsec;
	} timeout = {0, ns};
	uint64_t start, took;

	if (sosc_is_process_sealed()) {
		for (int i = 0; i < 40000; i++)
			sosc_pause();
		return 2500000;
	}
	start = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
	(void)sosc_sys6(SYS_FUTEX, (long)word, FUTEX_WAIT, value, (long)&timeout, 0, 0);
	took = sosc_clock_ns(CLOCK_MONOTONIC_RAW) - start;
	// if it took longer, this process was stopped, and soscope possibly with it
	return took < 2ull * ns ? took : 2ull * ns;
}
