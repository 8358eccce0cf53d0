// SPDX-License-Identifier: Apache-2.0
/** Hooks of instrumented code that need not be called. */
#ifndef SOSC_SILENCE_H
#define SOSC_SILENCE_H

#include "hook/hook.h"

#pragma GCC visibility push(hidden)

struct sosc_no_call { // an instruction that may replace a call
	uint64_t addr;
	uint32_t size; // 0 if there is another instruction instead of a call
	const uint8_t *code;
};

bool sosc_prof_silence(struct sosc_hooking *work, uint64_t until);

// depends on the code of calls: code_<processor>_hooks.c
struct sosc_no_call sosc_prof_no_call(uint64_t displacement, bool to_code);
uint64_t sosc_prof_stub_start(const struct sosc_loaded *image, uint64_t displacement);

#pragma GCC visibility pop

#endif
