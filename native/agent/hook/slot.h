// SPDX-License-Identifier: Apache-2.0
/** A slot that is being hooked. */
#ifndef SOSC_SLOT_H
#define SOSC_SLOT_H

#include "hook/lazy.h"
#include "hook/select.h"

#pragma GCC visibility push(hidden)

struct sosc_scan;
struct sosc_scanned;

struct sosc_candidate {
	struct sosc_loaded *image; // the image that contains it
	// the image whose calls go through it: the same one, or an interpreter
	struct sosc_loaded *caller;
	const Elf64_Rela *rela; // NULL for METHOD
	const char *symbol;
	const char *version;
	struct sosc_loaded *callee;
	struct sosc_choice choice;
	uint64_t addr; // the slot, which the loader fills in
	uint64_t value; // value of the slot
	uint64_t index; // index in DT_JMPREL
	enum sosc_lazy_way lazy;
	enum sosc_slot_kind kind;
	const struct sosc_scan *scan; // PLT_GOT, CALL_SITES: has the uses of the slot
	struct sosc_scanned *uses;
	bool shared; // it gets the address that all words with the function's address get
};

void sosc_slots_begin(struct sosc_loaded *image);
void sosc_slots_end(void);
void sosc_slots_again(void);
void sosc_slot_hook(struct sosc_candidate *at);
void sosc_slot_refuse(struct sosc_candidate *at, enum sosc_slot_refusal refusal);
bool sosc_slot_is_wanted(struct sosc_candidate *at);
void sosc_slot_guard(const struct sosc_candidate *at);
uint64_t sosc_past_canonical(uint64_t value);

#pragma GCC visibility pop

#endif
