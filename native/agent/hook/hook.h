// SPDX-License-Identifier: Apache-2.0
/**
 * Hooking an image, in stages.
 */
#ifndef SOSC_HOOK_H
#define SOSC_HOOK_H

#include "hook/methods.h"
#include "hook/scan.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

enum {
	SOSC_SILENT_SLOTS = 16, // most slots of an image
};

struct sosc_silence { // unwanted calls of profiling hooks in an image: see silence.c
	// searches for slots that lead to an empty function, then for stubs that jump there
	struct sosc_scan scan;
	struct sosc_scanned slots[SOSC_SILENT_SLOTS];
	struct sosc_scanned stubs[SOSC_SILENT_SLOTS];
	uint32_t stub_count;
	uint32_t done; // number of call sites in the scan that are done
	enum {
		SILENCE_SLOTS,
		SILENCE_USES,
		SILENCE_CALLS_BY_SLOT,
		SILENCE_STUBS,
		SILENCE_CALLS_BY_STUB,
		SILENCE_DONE,
	} stage;
};

struct sosc_hooking { // the work on one image, which may take several turns
	struct sosc_loaded *image;
	// where to continue: relocation of DT_JMPREL, slot of the scan, place in the code, page of
	// data, or method
	uint64_t next;
	uint64_t size; // bytes of scan.slots
	struct sosc_scan scan;
	struct sosc_methods methods;
	struct sosc_silence silence; // for the instrument that changes code
	enum {
		HOOK_JUMP_SLOTS,
		FIND_DATA_SLOTS,
		SCAN_TEXT,
		HOOK_DATA_SLOTS,
		CHANGE_CODE,
		FIND_METHODS,
		NAME_METHODS,
		HOOK_METHODS,
	} stage;
	bool lazy; // a relocation was changed
	bool only_patches; // only patches are applied, no instrument sees anything new
	bool alone; // no other thread runs
	bool defers; // soscope changes the code, because other threads may stand in it
};

bool sosc_hook_some(struct sosc_hooking *work, uint64_t until, bool alone);
void sosc_hook_forget(struct sosc_hooking *work);
void sosc_image_hook(struct sosc_loaded *image, bool alone);
void sosc_image_patch(struct sosc_loaded *image);
void sosc_image_wait(struct sosc_loaded *image);

#pragma GCC visibility pop

#endif
