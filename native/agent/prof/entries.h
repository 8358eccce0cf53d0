// SPDX-License-Identifier: Apache-2.0
/**
 * Functions with room for a call at their entry: __patchable_function_entries.
 */
#ifndef SOSC_PROF_ENTRIES_H
#define SOSC_PROF_ENTRIES_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_hooking;
struct sosc_loaded;

bool sosc_prof_entries(struct sosc_hooking *work, uint64_t until);
void sosc_prof_entries_start(uint64_t handler);
void sosc_prof_entries_mute(void);
uint64_t sosc_prof_stub(const struct sosc_loaded *image);
const uint64_t *sosc_prof_stubs(void);
void sosc_prof_stubs_rest(void);

// ---- code_<processor>_entries.c ------------------------------------------------------

enum {
	SOSC_ROOM_MOST = 15, // most bytes of one instruction
	SOSC_ENTRY_STUB = 16, // bytes
};

struct sosc_room { // room for a call at a function's entry
	uint32_t size; // bytes, 0 if there is no room
	bool is_split; // several instructions stand there
	bool is_other; // the first instruction is not a no-operation
};

uint32_t sosc_mark_size(const uint8_t *code, const uint8_t *end);
uint32_t sosc_nops_size(const uint8_t *code, const uint8_t *end);
struct sosc_room sosc_room_at(const uint8_t *code, const uint8_t *end);
bool sosc_write_call(uint8_t *code, uint32_t size, uint64_t at, uint64_t to);
uint64_t sosc_called_at(const uint8_t *code, const uint8_t *end, uint64_t at);
void sosc_write_stub(uint8_t code[SOSC_ENTRY_STUB], uint64_t cell);

#pragma GCC visibility pop

#endif
