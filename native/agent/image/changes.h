// SPDX-License-Identifier: Apache-2.0
/**
 * The journal: the words of the target that the agent has changed.
 */
#ifndef SOSC_CHANGES_H
#define SOSC_CHANGES_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

extern struct sosc_change sosc_changes[SOSC_MAX_CHANGES];
extern bool
	// soscope has stopped the process, and makes the changes of code that are left to it
	sosc_is_turn;

bool sosc_change_note(const struct sosc_loaded *image, uint64_t addr, uint64_t before,
		      uint64_t after, uint8_t size);
bool sosc_change_code(const struct sosc_loaded *image, struct sosc_change change);
bool sosc_change_hand_over(uint64_t addr);
bool sosc_change_word(const struct sosc_loaded *image, uint64_t addr, uint64_t value);
bool sosc_change_loader(uint64_t addr, uint64_t before, uint64_t after);
bool sosc_change_patch(const struct sosc_loaded *image, uint64_t addr, uint64_t value,
		       uint32_t patch);
bool sosc_change_revert(uint64_t addr);
void sosc_changes_again(void);
void sosc_changes_forget(const struct sosc_loaded *image);

#pragma GCC visibility pop

#endif
