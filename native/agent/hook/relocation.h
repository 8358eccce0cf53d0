// SPDX-License-Identifier: Apache-2.0
/** The slots of an image that its relocations fill, and which of them are hooked. */
#ifndef SOSC_RELOCATION_H
#define SOSC_RELOCATION_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_hooking;

void sosc_hook_jump_slot(struct sosc_hooking *work, uint64_t i);
void sosc_find_data_slots(struct sosc_hooking *work);
void sosc_hook_data_slot(struct sosc_hooking *work, uint64_t i);

#pragma GCC visibility pop

#endif
