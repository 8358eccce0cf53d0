// SPDX-License-Identifier: Apache-2.0
/** Recording single calls, for instruments whose handlers are in C. */
#ifndef SOSC_TRACE_H
#define SOSC_TRACE_H

#include "base/arch.h"

#pragma GCC visibility push(hidden)

uint64_t sosc_record_entry(struct sosc_regs *regs, const struct sosc_injected *injected);
void sosc_record_exit(struct sosc_regs *regs);
void sosc_record_result(struct sosc_regs *regs, const struct sosc_cell *cell, int32_t error);

#pragma GCC visibility pop

#endif
