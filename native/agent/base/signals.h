// SPDX-License-Identifier: Apache-2.0
/**
 * Signals, held back while what others see is written.
 *
 * A handler may fork between a look at whose memory it is and a write to it. The child writes when
 * the handler returns, a long time after: then the memory may be anybody's. A few instructions go
 * that way once in a million forks; what takes longer runs without handlers.
 */
#ifndef SOSC_SIGNALS_H
#define SOSC_SIGNALS_H

#include "base/sys.h"

/**
 * Hold signals of this thread back until sosc_signals_release. False, and nothing is done: the thread
 * may make no system calls (@is_sealed, as sosc_is_sealed says). Signals that a fault raises come
 * nevertheless.
 */
static inline bool sosc_signals_hold(bool is_sealed, uint64_t *before)
{
	static const uint64_t held =
		~(1ull << (SIGILL - 1) | 1ull << (SIGTRAP - 1) | 1ull << (SIGBUS - 1) |
		  1ull << (SIGFPE - 1) | 1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1));

	return !is_sealed &&
	       sosc_sys6(SYS_RT_SIGPROCMASK, SIG_BLOCK, (long)&held, (long)before, 8, 0, 0) == 0;
}

/** They come again; those that waited come now. */
static inline void sosc_signals_release(const uint64_t *before)
{
	(void)sosc_sys6(SYS_RT_SIGPROCMASK, SIG_SETMASK, (long)before, 0, 8, 0, 0);
}

#endif
