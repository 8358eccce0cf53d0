// SPDX-License-Identifier: Apache-2.0
// The kernel's clocks, by system calls: for what happens off the call path.

#include "agent.h"
#include "sys.h"

uint64_t sosc_clock_ns(int clock)
{
	struct {
		int64_t sec, nsec;
	} now = {0, 0};

	(void)sosc_sys3(SYS_CLOCK_GETTIME, clock, (long)&now, 0);
	return (uint64_t)now.sec * 1000000000 + (uint64_t)now.nsec;
}

/** Whether it is past @until, in ns of CLOCK_MONOTONIC_RAW; 0 = never. */
bool sosc_is_over(uint64_t until)
{
	return until && sosc_clock_ns(CLOCK_MONOTONIC_RAW) >= until;
}
