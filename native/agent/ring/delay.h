// SPDX-License-Identifier: Apache-2.0
/** Time that threads wait for a processor, which is not part of any call's time. */
#ifndef SOSC_DELAY_H
#define SOSC_DELAY_H

#include "thread/thread.h"

#pragma GCC visibility push(hidden)

void sosc_delay_ours(struct sosc_thread *thread, uint64_t start);
void sosc_delay_passed(const void *unused, struct sosc_thread *thread);
uint64_t sosc_delay_at_exit(struct sosc_thread *thread, uint64_t now);
uint64_t sosc_delay_at_entry(const void *unused, struct sosc_thread *thread);
uint64_t sosc_delay_of_prof(uint64_t last);

#pragma GCC visibility pop

#endif
