// SPDX-License-Identifier: Apache-2.0
/**
 * The log of calls that instrumented code reports. Each call is written to the ring when it ends.
 */
#ifndef SOSC_PROF_LOG_H
#define SOSC_PROF_LOG_H

#include "prof/prof.h"

#pragma GCC visibility push(hidden)

struct sosc_cell;

void sosc_prof_log(const struct sosc_prof_frame *frame, uint64_t now, uint32_t flags);

// ---- called from assembly, or only known by their address -------------------------

void sosc_h_prof_log_enter(void);
void sosc_h_prof_log_exit(void);
void sosc_h_prof_log_bare(void);
void sosc_h_prof_log_own_enter(void);
void sosc_h_prof_log_own_exit(void);
void sosc_h_prof_log_own_bare(void);
void sosc_h_prof_log_mcount(void);
void sosc_h_prof_log_fentry(void);
void sosc_h_prof_log_entry(void);
void sosc_x_prof_log(void);
void sosc_prof_log_enter(uint64_t function, uint64_t from, uint64_t site, uint64_t sp);
void sosc_prof_log_exit(uint64_t function, uint64_t from, uint64_t sp, uint64_t now);
void sosc_prof_log_bare(uint64_t site);
void sosc_prof_log_begin_late(struct sosc_prof_table *table, struct sosc_prof_frame *frame,
			      uint64_t place);
void sosc_prof_log_called(uint64_t site, uint64_t *slot, struct sosc_cell *cell, uint32_t hook);
void sosc_prof_log_returned(uint64_t code, uint64_t sp, uint64_t now);

#pragma GCC visibility pop

_Static_assert((int)SOSC_REPORTED_ROOT == REPORTED_ROOT, "layout.h");
_Static_assert((int)SOSC_REPORTED_TICKS == REPORTED_TICKS, "layout.h");

#endif
