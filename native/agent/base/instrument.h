// SPDX-License-Identifier: Apache-2.0
/**
 * What an instrument is: one file with one function that fills in this table, and a line in
 * SOSC_INSTRUMENTS. A slot leads to the cell of the first instrument that has chosen it. That cell
 * leads to the cell of the next instrument, and the last cell to the function. Each instrument
 * costs what its own handler costs, and nothing in slots that it has not chosen.
 */
#ifndef SOSC_INSTRUMENT_H
#define SOSC_INSTRUMENT_H

#include "base/arch.h"

#pragma GCC visibility push(hidden)

struct sosc_candidate;
struct sosc_chosen;
struct sosc_hooking;
struct sosc_layer;
struct sosc_loaded;
struct sosc_thread;

struct sosc_call { // argument of handlers written in C
	const struct sosc_layer *layer;
	uint32_t cell; // index of the cell, and of the slot's record
	struct sosc_thread *thread; // NULL if the table of threads is full
	struct sosc_regs *regs; // registers at the call or at its return; changes take effect
	uint64_t sp; // address at which the return address lies
	uint64_t target; // for SOSC_GO_TO
	uint64_t number; // number of the call, if the assembly has counted it, else 0
};

enum sosc_next { // result of an entry handler
	SOSC_GO_ON, // go on to the next instrument, or the function
	SOSC_GO_ON_AND_COME_BACK, // the same, and call `exit` with the result
	SOSC_RETURN_NOW, // return *sosc_result(regs) without calling the function
	SOSC_GO_TO, // go to call->target instead of the function
};

enum sosc_need { // what an instrument needs
	SOSC_NEEDS_IDS = 1, // ids of threads and processes
	SOSC_NEEDS_CLOCK = 2,
	SOSC_NEEDS_PARKED = 4, // a thread's table of calls that have not returned
	SOSC_NEEDS_EVERY_CALL = 8, // to see calls of children that are not followed as well
};

struct sosc_instrument {
	uint32_t needs; // enum sosc_need
	// hook calls through pointers, too: if no other instrument has chosen a function, its
	// address is replaced everywhere by the same other address
	bool addresses;
	// return the entry handler for a cell; if this is NULL, `entry` is called
	uint64_t (*handler)(const struct sosc_chosen *chosen, bool entry_only);
	// the handler that counts by call site, 0 if there is none: slots with it may lead to
	// counters
	uint64_t counted;
	// as `handler`, for an instrument that keeps data for each slot
	uint64_t (*hooked)(const struct sosc_candidate *at, uint32_t cell);
	// exit handler for all return trampolines of this instrument; if 0, `exit` is called
	uint64_t exit_handler;
	enum sosc_next (*entry)(struct sosc_call *call);
	void (*exit)(struct sosc_call *call);
	// change code of an image whose slots are hooked; false: the time @until has passed, call
	// it again
	bool (*code)(struct sosc_hooking *work, uint64_t until);
	void (*start)(void); // a session with this instrument begins, with all threads stopped
	void (*thread)(struct sosc_thread *thread); // a thread makes its first call
	void (*forked)(void); // in a forked child that is recorded, at its first call
	void (*quiet)(void); // this process records nothing from now on
	// @thread continues as another thread, or @has_ended and another thread takes its place:
	// what it has written so far does not belong to the other thread
	void (*part)(struct sosc_thread *thread, bool has_ended);
	// an image was unloaded; another may be loaded in its place
	void (*closed)(const struct sosc_loaded *image);
};

// Each instrument with its name in enum sosc_instrument_kind of wire.h, and the name of its file.
#define SOSC_INSTRUMENTS(ONE) \
	ONE(GUARD, guard)     \
	ONE(COUNT, count)     \
	ONE(STATS, stats)     \
	ONE(TRACE, trace)     \
	ONE(INJECT, inject)   \
	ONE(BLOCKS, blocks)   \
	ONE(OBJECTS, objects) \
	ONE(OPEN, open)       \
	ONE(CLOSE, close)     \
	ONE(PROF, prof)

#define SOSC_DECLARE(name, file) void sosc_instrument_##file(struct sosc_instrument *instrument);
SOSC_INSTRUMENTS(SOSC_DECLARE)
#undef SOSC_DECLARE

extern struct sosc_instrument sosc_instruments[SOSC_INSTRUMENT_KINDS];

struct sosc_blocks;

// How stack/ gets the frames of an interpreter: each interpreter is a file of vm/ that fills in one
// of these.
struct sosc_language {
	bool is_there; // there is an interpreter whose frames can be read
	void (*start)(const struct sosc_blocks *given, struct sosc_blocks *own);
	// check whether @image contains the interpreter
	void (*see)(const struct sosc_loaded *image);
	void (*forked)(void);
	void (*forget)(const struct sosc_loaded *image);
	uint32_t (*stack)(uint64_t *frames, uint32_t room, const struct sosc_thread *thread);
};

enum sosc_language_kind { // in the order in which stack/ asks them, until one returns frames
	SOSC_LANGUAGE_PYTHON,
	SOSC_LANGUAGE_RUBY,
	SOSC_LANGUAGE_KINDS,
};

extern struct sosc_language sosc_languages[SOSC_LANGUAGE_KINDS];

/** Return whether this process has an interpreter whose frames are shown in stacks. */
static inline bool sosc_has_language(void)
{
	bool is_there = false;

	for (uint32_t kind = 0; kind < SOSC_LANGUAGE_KINDS; kind++)
		is_there |= __atomic_load_n(&sosc_languages[kind].is_there, __ATOMIC_RELAXED);
	return is_there;
}

extern uint32_t sosc_held; // bit set of the instruments of this session
extern uint32_t sosc_needs; // enum sosc_need, for all instruments together

/** Return whether this session has an instrument, an enum sosc_instrument_kind. */
static inline bool sosc_holds(uint32_t kind)
{
	return sosc_held >> kind & 1;
}

void sosc_instruments_init(void);
bool sosc_instruments_see_exits(void);
void sosc_instruments_see_no_exits(void);
void sosc_instruments_start(void);
bool sosc_instruments_code(struct sosc_hooking *work, uint64_t until);
void sosc_instruments_thread(struct sosc_thread *thread);
void sosc_instruments_part(struct sosc_thread *thread, bool has_ended);
void sosc_instruments_forked(bool is_quiet);
void sosc_instruments_rest(void);
void sosc_instruments_closed(const struct sosc_loaded *image);
void *sosc_own(enum sosc_instrument_kind kind, uint64_t size);
const void *sosc_given(enum sosc_instrument_kind kind, uint64_t size);

#pragma GCC visibility pop

/**
 * Return the plan of an instrument in @session, or NULL if the session does not have the
 * instrument. Code that goes on from the plan to memory of that session must read sosc_session only
 * once, because another session may begin while a signal handler has interrupted a call.
 */
static inline const struct sosc_plan *sosc_plan_in(const struct sosc_session *session,
						   enum sosc_instrument_kind kind)
{
	for (uint32_t i = 0; i < session->plans; i++)
		if (session->plan[i].instrument == (uint32_t)kind)
			return &session->plan[i];
	return NULL;
}

#endif
