// SPDX-License-Identifier: Apache-2.0
/**
 * How an image's code uses its GLOB_DAT slots.
 */
#ifndef SOSC_SCAN_H
#define SOSC_SCAN_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

enum sosc_use { // how an image's code uses a GLOB_DAT slot
	SOSC_USE_CALL = 1, // called through the slot
	SOSC_USE_JUMP = 2, // jumped to through the slot
	SOSC_USE_LOAD = 4, // anything else: the address may be copied anywhere
	SOSC_USE_STUB = 8, // a .plt.got stub
	SOSC_USE_CALLED_LOAD = 16, // loaded into a register that is used only for calls
	SOSC_USE_LEFT = 32, // looks like a call, but could not be re-aimed
};

struct sosc_scanned { // a GLOB_DAT slot to search for
	uint64_t addr;
	uint32_t relocation; // index in image->rela
	uint32_t site; // its latest use, as index in sites, 0 = none
	uint32_t uses; // enum sosc_use
};

struct sosc_scan_site {
	uint32_t offset; // offset of the displacement from image->start
	uint32_t next; // another use of the same slot, 0 = none
};

struct sosc_scan { // the search of an image's text for uses of its slots
	const struct sosc_loaded *image;
	struct sosc_scanned *slots;
	uint64_t low, span; // addr of the first slot, distance to the last
	uint64_t at; // where to continue in that segment, 0 = at its start
	uint64_t end; // end of the segment being searched
	uint32_t segment; // index in image->phdr
	struct sosc_scan_site *sites; // uses that can be re-aimed; index 0 is unused
	uint32_t count; // number of slots
	uint32_t used, room; // number of sites, and room for them
	bool sites_lost; // there was no room for all of them
	bool of_code; // slots are addresses of code, and direct calls of them are searched for
};

void sosc_scan_sort(struct sosc_scan *scan);
bool sosc_scan_text(struct sosc_scan *scan, uint64_t until);
void sosc_scan_end(struct sosc_scan *scan);
uint32_t sosc_scan_sites(const struct sosc_scan *scan, struct sosc_scanned *slot, uint64_t shadow);

// Between scan.c and code_<processor>_scan.c, which reads and writes the code
void sosc_scan_keep(struct sosc_scan *scan, struct sosc_scanned *slot, uint64_t displacement);
bool sosc_scan_range(struct sosc_scan *scan, uint64_t start, uint64_t end, uint64_t until);
bool sosc_reaim(const struct sosc_loaded *image, uint64_t displacement, uint64_t shadow);
bool sosc_is_use(const struct sosc_loaded *image, uint64_t displacement);

#pragma GCC visibility pop

#endif
