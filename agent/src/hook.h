// SPDX-License-Identifier: Apache-2.0
/**
 * Hooking an image, in stages.
 */
#ifndef SOSC_HOOK_H
#define SOSC_HOOK_H

#include "scan.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

struct sosc_hooking { // of one image, which may take several turns
	struct sosc_loaded *image;
	uint64_t next; // relocation of DT_JMPREL, then slot of the scan
	uint64_t size; // bytes of scan.slots
	struct sosc_scan scan;
	enum { HOOK_JUMP_SLOTS, FIND_DATA_SLOTS, SCAN_TEXT, HOOK_DATA_SLOTS } stage;
	bool lazy; // a relocation was changed
	bool only_patches; // no instrument sees anything new
};

bool sosc_hook_some(struct sosc_hooking *work, uint64_t until, bool alone);
void sosc_hook_forget(struct sosc_hooking *work);
void sosc_image_hook(struct sosc_loaded *image, bool alone);
void sosc_image_patch(struct sosc_loaded *image);
void sosc_image_wait(struct sosc_loaded *image);

#pragma GCC visibility pop

#endif
