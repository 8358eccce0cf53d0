// SPDX-License-Identifier: Apache-2.0
/**
 * Hooks of instrumented code that nobody wants called.
 */
#ifndef SOSC_SILENCE_H
#define SOSC_SILENCE_H

#include "hook/scan.h"

#pragma GCC visibility push(hidden)

struct sosc_hooking;

enum {
	SOSC_SILENT_SLOTS = 16, // of an image
};

struct sosc_silence { // of an image, which may take several turns
	struct sosc_scan scan; // for slots that lead to nothing, then for stubs that jump there
	struct sosc_scanned slots[SOSC_SILENT_SLOTS];
	struct sosc_scanned stubs[SOSC_SILENT_SLOTS];
	uint32_t stub_count;
	uint32_t done; // of the sites in the scan
	enum {
		SILENCE_SLOTS,
		SILENCE_USES,
		SILENCE_CALLS_BY_SLOT,
		SILENCE_STUBS,
		SILENCE_CALLS_BY_STUB,
		SILENCE_DONE,
	} stage;
};

struct sosc_no_call { // what may stand in the place of a call
	uint64_t addr;
	uint32_t size; // 0: another instruction stands there
	const uint8_t *code;
};

bool sosc_prof_silence(struct sosc_hooking *work, uint64_t until);

// What depends on the code of calls: code_<processor>_hooks.c
struct sosc_no_call sosc_prof_no_call(uint64_t displacement, bool to_code);
uint64_t sosc_prof_stub_start(const struct sosc_loaded *image, uint64_t displacement);

#pragma GCC visibility pop

#endif
