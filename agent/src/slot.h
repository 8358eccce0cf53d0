// SPDX-License-Identifier: Apache-2.0
/**
 * What the files share that find slots and hook them.
 */
#ifndef SOSC_SLOT_H
#define SOSC_SLOT_H

#include "agent.h"

#pragma GCC visibility push(hidden)

enum sosc_lazy_way {
	BOUND,
	LAZY_PUSH, // the PLT pushes the index itself
	LAZY_REGISTER, // the PLT passes the index in r11 to PLT0 (mold)
};

struct sosc_candidate {
	struct sosc_loaded *image;
	const Elf64_Rela *rela;
	const char *symbol;
	const char *version;
	struct sosc_loaded *callee;
	struct sosc_choice choice;
	uint64_t addr; // of the cell the loader fills in
	uint64_t value; // what it holds
	uint64_t index; // in DT_JMPREL
	enum sosc_lazy_way lazy;
	enum sosc_slot_kind kind;
	const struct sosc_scan *scan; // PLT_GOT, CALL_SITES: where its uses are
	const struct sosc_scanned *uses;
};

int sosc_segment_flags(const struct sosc_loaded *image, uint64_t addr);
enum sosc_lazy_way sosc_lazy_way(const struct sosc_loaded *image, uint64_t value, uint64_t index);
bool sosc_redirect_binding(const struct sosc_candidate *at, uint64_t target);

uint64_t sosc_past_canonical(uint64_t value);
void sosc_slots_begin(struct sosc_loaded *image);
void sosc_slots_end(void);
void sosc_slot_hook(const struct sosc_candidate *at);
void sosc_slot_refuse(const struct sosc_candidate *at, enum sosc_slot_refusal refusal);
void sosc_slot_guard(const struct sosc_candidate *at);

struct sosc_hooking { // of one image, which may take several turns
	struct sosc_loaded *image;
	uint64_t next; // relocation of DT_JMPREL, then slot of the scan
	uint64_t size; // bytes of scan.slots
	struct sosc_scan scan;
	enum { HOOK_JUMP_SLOTS, FIND_DATA_SLOTS, SCAN_TEXT, HOOK_DATA_SLOTS } stage;
	bool lazy; // a relocation was changed
};

bool sosc_hook_some(struct sosc_hooking *work, uint64_t until, bool alone);
void sosc_hook_forget(struct sosc_hooking *work);

#pragma GCC visibility pop

#endif
