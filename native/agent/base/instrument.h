// SPDX-License-Identifier: Apache-2.0
/**
 * What an instrument is: one file with one function that fills in this table, and a line
 * in SOSC_INSTRUMENTS. A slot leads to the cell of the first instrument that has
 * chosen it, that to the cell of the next, the last to the function; each costs what its
 * own handler costs, and nothing where it is not asked for.
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

struct sosc_call { // what a handler in C gets
	const struct sosc_layer *layer;
	uint32_t cell; // its index, that of the slot's record, too
	struct sosc_thread *thread; // NULL: there is no room for another one
	struct sosc_regs *regs; // of the call, or at its return; what is changed is carried out
	uint64_t sp; // where the return address lies
	uint64_t target; // for SOSC_GO_TO
	uint64_t number; // of the call, where the assembly has counted it; else 0
};

enum sosc_next { // after a handler of entries
	SOSC_GO_ON, // to the next instrument, or the function
	SOSC_GO_ON_AND_COME_BACK, // the same, and `exit` is called with the result
	SOSC_RETURN_NOW, // with *sosc_result(regs): the function is not called
	SOSC_GO_TO, // call->target instead
};

enum sosc_need { // what an instrument wants to be there
	SOSC_NEEDS_IDS = 1, // of threads and processes
	SOSC_NEEDS_CLOCK = 2,
	SOSC_NEEDS_PARKED = 4, // a thread's table of calls that have not returned
	SOSC_NEEDS_EVERY_CALL = 8, // sees also the calls of children that nobody follows
};

struct sosc_instrument {
	uint32_t needs; // enum sosc_need
	bool addresses; // calls through pointers, too: where it alone has chosen a function,
		// its address becomes another one, everywhere the same
	// which handler of entries a cell gets; NULL: `entry` is called
	uint64_t (*handler)(const struct sosc_chosen *chosen, bool entry_only);
	// that one of them which counts by call site: its slots may lead to counters; 0: none does
	uint64_t counted;
	// the same, for an instrument that makes something of each slot
	uint64_t (*hooked)(const struct sosc_candidate *at, uint32_t cell);
	// handler of exits, for all return trampolines of this instrument; 0: `exit` is called
	uint64_t exit_handler;
	enum sosc_next (*entry)(struct sosc_call *call);
	void (*exit)(struct sosc_call *call);
	// changes code of an image whose slots are hooked; false: it is past @until, and is called again
	bool (*code)(struct sosc_hooking *work, uint64_t until);
	void (*start)(void); // a session that holds it begins, with everything stopped
	void (*thread)(struct sosc_thread *thread); // makes its first call
	void (*forked)(void); // a child that goes on, at its first call
	void (*quiet)(void); // this process records nothing any more
	// @thread goes on as another one, or @has_ended and another one has its place: what it has
	// written so far is not the other's
	void (*part)(struct sosc_thread *thread, bool has_ended);
	void (*closed)(const struct sosc_loaded *image); // it is gone; another may be there next
};

// Each with the name of its number in wire.h, and that of its file.
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

// How stack/ gets the frames of an interpreter: each is a file of vm/, and fills in one of these.
struct sosc_language {
	bool is_there; // there is an interpreter that can be read
	void (*start)(const struct sosc_blocks *given, struct sosc_blocks *own);
	void (*see)(const struct sosc_loaded *image); // which may be the interpreter's
	void (*forked)(void);
	void (*forget)(const struct sosc_loaded *image);
	uint32_t (*stack)(uint64_t *frames, uint32_t room, const struct sosc_thread *thread);
};

enum sosc_language_kind { // in the order in which they are asked, until one has frames
	SOSC_LANGUAGE_PYTHON,
	SOSC_LANGUAGE_RUBY,
	SOSC_LANGUAGE_KINDS,
};

extern struct sosc_language sosc_languages[SOSC_LANGUAGE_KINDS];

/** Whether this process has an interpreter whose frames are shown in stacks. */
static inline bool sosc_has_language(void)
{
	bool is_there = false;

	for (uint32_t kind = 0; kind < SOSC_LANGUAGE_KINDS; kind++)
		is_there |= __atomic_load_n(&sosc_languages[kind].is_there, __ATOMIC_RELAXED);
	return is_there;
}

extern uint32_t sosc_held; // bit set: instruments of this session
extern uint32_t sosc_needs; // enum sosc_need, of all of them

/** Whether this session holds an instrument, an enum sosc_instrument_kind. */
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
 * The plan of an instrument in @session, NULL: it does not hold it. Who goes on from the plan to
 * memory of that session reads sosc_session once, as another session may begin while a signal
 * handler has interrupted a call.
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
