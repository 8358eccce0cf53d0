// SPDX-License-Identifier: Apache-2.0
/**
 * Blocking signals while shared memory is written.
 *
 * A signal handler may fork between the check of who owns some memory and the write to it. The
 * child then writes when the handler returns, a long time later, when the memory may have another
 * owner. For a few instructions that happens once in a million forks. Longer sequences run with
 * signals blocked.
 */
#ifndef SOSC_SIGNALS_H
#define SOSC_SIGNALS_H

#include "base/sys.h"

/**
 * Block signals of this thread until sosc_signals_release. Return false and do nothing if the
 * thread may make no system calls (@is_sealed, as sosc_is_sealed returns). Signals raised by faults
 * are not blocked.
 */
static inline bool sosc_signals_hold(bool is_sealed, uint64_t *before)
{
	static const uint64_t held =
		~(1ull << (SIGILL - 1) | 1ull << (SIGTRAP - 1) | 1ull << (SIGBUS - 1) |
		  1ull << (SIGFPE - 1) | 1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1));

	return !is_sealed &&
	       sosc_sys6(SYS_RT_SIGPROCMASK, SIG_BLOCK, (long)&held, (long)before, 8, 0, 0) == 0;
}

/** Unblock signals. Signals that were pending are delivered now. */
static inline void sosc_signals_release(const uint64_t *before)
{
	(void)sosc_sys6(SYS_RT_SIGPROCMASK, SIG_SETMASK, (long)before, 0, 8, 0, 0);
}

#endif
