// SPDX-License-Identifier: Apache-2.0
/** Calls that the program itself counts: the functions, and the data of a hooked slot. */
#ifndef SOSC_TALLY_H
#define SOSC_TALLY_H

#include "base/agent.h"
#include "base/layout.h"
#include "soscope/tally.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

enum {
	TALLY_FUNCTIONS_MAX = 256,
	TALLY_SPREADS = 16, // sets of counters, which threads share
	TALLY_FDS = 65536,
};

struct sosc_tally_slot { // the data of a thunk; begins like struct sosc_cell
	uint64_t handler;
	uint64_t original; // the loader stores here when it binds the slot
	uint64_t addr; // address of the slot
	uint64_t before; // value of the slot before it was hooked
	uint64_t field; // addr of the relocation's offset that was changed, 0 if there is none
	uint64_t field_before;
	uint64_t untraced; // where calls go if `before` is a trampoline whose session is over
	uint64_t session; // number of that session
	// addr of the agent's count of sessions, 0 if `before` is not a trampoline
	uint64_t session_at;
	uint32_t image; // index in the list of images
	uint32_t function;
	uint32_t is_active;
	// its image was unloaded, so the thunk may serve another slot of the same function
	uint32_t is_gone;
	uint32_t reserved[10];
};

struct sosc_tally_call { // as kept by sosc_h_tally
	uint64_t arguments[6];
	uint64_t vectors, chain; // number of vector registers of a variadic call; static chain
	struct sosc_tally_slot *slot;
	uint64_t target;
	uint64_t words; // words of arguments on the stack
	uint64_t *stack; // their address
	uint64_t result, result_high;
	uint64_t start; // ticks
	uint64_t kept; // bytes of a block that is being freed
	uint64_t requested;
	uint64_t is_seen; // whether the return is seen
};

struct sosc_tally_rules { // what the agent is told once for a trace
	uint64_t (*usable)(uint64_t block);
	// functions of SQLite, NULL if none, or several SQLites
	int (*step_is_busy)(void *statement);
	const char *(*step_text)(void *statement);
	uint32_t pid; // the process that counts
	bool has_no_clock;
	bool is_one_allocator; // there is one allocator, so `usable` works for all blocks
	uint64_t allocator; // bounds of that allocator's image, whose blocks are known
	uint64_t allocator_end;
};

extern struct sosc_tally_rules sosc_tally_rules;
extern struct sosc_tally_count sosc_tally_counts[TALLY_SPREADS][TALLY_FUNCTIONS_MAX];
extern struct sosc_tally_wire sosc_tally_wires[SOSC_TALLY_GROUPS];
// by descriptor: its group, and 128 if the latest bytes were sent
extern uint8_t sosc_tally_fds[TALLY_FDS];

const struct sosc_tally_function *sosc_tally_functions(uint32_t *count);
uint32_t sosc_tally_function(const char *name);
void sosc_tally_peers(void);
void sosc_tally_peer(uint64_t fd, uint64_t address, uint64_t size);
void sosc_tally_again(void);
void sosc_h_tally(void);
uint64_t sosc_tally_entry(struct sosc_tally_call *call);
void sosc_tally_exit(struct sosc_tally_call *call);
extern const uint8_t sosc_tally_page[SOSC_PAGE]; // a page of thunks, to be copied

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_tally_slot) == TALLY_SLOT_SIZE, "layout.h");
_Static_assert(offsetof(struct sosc_tally_slot, handler) == CELL_HANDLER, "layout.h");
_Static_assert(offsetof(struct sosc_tally_slot, original) == CELL_ORIGINAL, "layout.h");
_Static_assert(sizeof(struct sosc_tally_call) == TALLY_CALL_SIZE, "layout.h");
_Static_assert(offsetof(struct sosc_tally_call, vectors) == TALLY_CALL_VECTORS, "layout.h");
_Static_assert(offsetof(struct sosc_tally_call, chain) == TALLY_CALL_CHAIN, "layout.h");
_Static_assert(offsetof(struct sosc_tally_call, slot) == TALLY_CALL_SLOT, "layout.h");
_Static_assert(offsetof(struct sosc_tally_call, words) == TALLY_CALL_WORDS, "layout.h");
_Static_assert(offsetof(struct sosc_tally_call, stack) == TALLY_CALL_STACK, "layout.h");
_Static_assert(offsetof(struct sosc_tally_call, result) == TALLY_CALL_RESULT, "layout.h");
_Static_assert(offsetof(struct sosc_tally_call, is_seen) == TALLY_CALL_SEEN, "layout.h");

long soscope_agent_tally(struct sosc_tally *tally);

#endif
