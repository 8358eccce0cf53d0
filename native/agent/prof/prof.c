// SPDX-License-Identifier: Apache-2.0
// Calls that instrumented code reports itself: the code's hooks lead here by slots, like any other
// function.

#include "prof/prof.h"
#include "base/instrument.h"
#include "call/handler.h"
#include "hook/slot.h"
#include "image/image.h"
#include "image/lookup.h"
#include "prof/entries.h"
#include "prof/log.h"
#include "prof/silence.h"
#include "prof/times.h"

bool sosc_prof_sees_exits;

static bool is_mcount(const char *symbol)
{
	return sosc_same(symbol, "mcount") || sosc_same(symbol, "_mcount");
}

static bool is_of_libc(const struct sosc_candidate *at)
{
	const struct sosc_loaded *callee = at->callee;

	return callee && (callee->loader || sosc_same(callee->name, "libc.so.6"));
}

enum { NOT_LOOKED_AT, STARTS, STARTS_NOT };

static uint8_t starts_gprof[SOSC_MAX_IMAGES]; // by image

// Returns whether code of the process starts gprof's part of mcount. A program that was linked for
// gprof does so, but any image may.
static bool has_gprof(void)
{
	for (uint32_t i = 0; i < sosc_loaded_count; i++) {
		const struct sosc_loaded *image = &sosc_loaded[i];

		if (!image->map)
			continue;
		if (starts_gprof[i] == NOT_LOOKED_AT)
			starts_gprof[i] = sosc_imports(image, "__monstartup") ||
							  sosc_imports(image, "monstartup") ?
						  STARTS :
						  STARTS_NOT;
		if (starts_gprof[i] == STARTS)
			return true;
	}
	return false;
}

static void closed(const struct sosc_loaded *image)
{
	starts_gprof[image - sosc_loaded] = NOT_LOOKED_AT;
	sosc_prof_closed(image);
}

// Returns the handler for calls of patched entries.
static uint64_t of_entries(void)
{
	if (sosc_prof_given->mode == SOSC_PROF_QUIET)
		return (uint64_t)sosc_prof_entry_quiet;
	if (sosc_prof_given->mode == SOSC_PROF_LOG)
		return (uint64_t)sosc_h_prof_log_entry;
	if (sosc_prof_given->mode < SOSC_PROF_SAMPLE || !sosc_prof_sees_exits)
		return (uint64_t)sosc_h_prof_entry_count;
	return (uint64_t)(sosc_prof_mask ? sosc_h_prof_entry_some : sosc_h_prof_entry);
}

// Returns the handler for calls of __fentry__.
static uint64_t of_fentry(void)
{
	if (sosc_prof_given->mode == SOSC_PROF_QUIET)
		return (uint64_t)sosc_prof_quiet;
	if (sosc_prof_given->mode == SOSC_PROF_LOG)
		return (uint64_t)sosc_h_prof_log_fentry;
	if (sosc_prof_given->mode < SOSC_PROF_SAMPLE || !sosc_prof_sees_exits)
		return (uint64_t)sosc_h_prof_fentry_count;
	return (uint64_t)(sosc_prof_mask ? sosc_h_prof_fentry_some : sosc_h_prof_fentry);
}

// mcount and __fentry__ of the C library are replaced only if nothing else needs what they do.
static uint64_t of_mcount(const struct sosc_candidate *at, bool is_fentry)
{
	bool sees = sosc_prof_given->mode >= SOSC_PROF_SAMPLE && sosc_prof_sees_exits;

	if (!is_of_libc(at) || has_gprof()) {
		__atomic_fetch_add(&sosc_prof->foreign, 1, __ATOMIC_RELAXED);
		return (uint64_t)sosc_h_jump;
	}
	if (is_fentry)
		return of_fentry();
	if (sosc_prof_given->mode == SOSC_PROF_QUIET)
		return (uint64_t)sosc_prof_quiet;
	if (sosc_prof_given->mode == SOSC_PROF_LOG)
		return (uint64_t)sosc_h_prof_log_mcount;
	if (!sees)
		return (uint64_t)sosc_h_prof_mcount_count;
	return (uint64_t)(sosc_prof_mask ? sosc_h_prof_mcount_some : sosc_h_prof_mcount);
}

static uint64_t of_cyg_logged(const char *symbol, bool own)
{
	if (sosc_same(symbol, "__cyg_profile_func_enter_bare"))
		return (uint64_t)(own ? sosc_h_prof_log_own_bare : sosc_h_prof_log_bare);
	if (sosc_same(symbol, "__cyg_profile_func_exit"))
		return (uint64_t)(own ? sosc_h_prof_log_own_exit : sosc_h_prof_log_exit);
	return (uint64_t)(own ? sosc_h_prof_log_own_enter : sosc_h_prof_log_enter);
}

// The C library's own hooks do nothing. Other hooks are the program's, and have to be called.
static uint64_t of_cyg(const struct sosc_candidate *at)
{
	bool own = !is_of_libc(at), times = sosc_prof_given->mode >= SOSC_PROF_SAMPLE;
	uint64_t enter = (uint64_t)(sosc_prof_mask ? sosc_h_prof_enter_some : sosc_h_prof_enter);
	uint64_t exit = (uint64_t)(sosc_prof_mask ? sosc_h_prof_exit_some : sosc_h_prof_exit);

	if (sosc_prof_given->mode == SOSC_PROF_QUIET)
		return (uint64_t)(own ? sosc_h_jump : sosc_prof_quiet);
	if (sosc_prof_given->mode == SOSC_PROF_LOG)
		return of_cyg_logged(at->symbol, own);
	if (sosc_same(at->symbol, "__cyg_profile_func_enter_bare"))
		return (uint64_t)(own ? sosc_h_prof_own_bare : sosc_h_prof_bare);
	if (sosc_same(at->symbol, "__cyg_profile_func_exit")) {
		if (own)
			return (uint64_t)(times ? sosc_h_prof_own_exit : sosc_h_jump);
		return times ? exit : (uint64_t)sosc_prof_quiet;
	}
	if (own)
		return (uint64_t)(times ? sosc_h_prof_own_enter : sosc_h_prof_own_count);
	return times ? enter : (uint64_t)sosc_h_prof_count;
}

static uint64_t hooked(const struct sosc_candidate *at, uint32_t cell)
{
	bool is_fentry = sosc_same(at->symbol, "__fentry__");

	(void)cell;
	if (!sosc_prof)
		return (uint64_t)sosc_h_jump;
	__atomic_fetch_add(&sosc_prof->slots, 1, __ATOMIC_RELAXED);
	return is_fentry || is_mcount(at->symbol) ? of_mcount(at, is_fentry) : of_cyg(at);
}

static bool change_code(struct sosc_hooking *work, uint64_t until)
{
	return sosc_prof_silence(work, until) && sosc_prof_entries(work, until);
}

static void start(void)
{
	const struct sosc_plan *plan = sosc_plan_in(sosc_session, SOSC_INSTRUMENT_PROF);

	sosc_prof = sosc_own(SOSC_INSTRUMENT_PROF, sizeof(*sosc_prof));
	sosc_prof_given = sosc_given(SOSC_INSTRUMENT_PROF, sizeof(*sosc_prof_given));
	if (!sosc_prof || !sosc_prof_given || !plan || sosc_prof_given->mode >= SOSC_PROF_MODES ||
	    !sosc_prof_given->period ||
	    plan->own.size < sosc_prof_given->first_table +
				     (uint64_t)sosc_prof_given->tables * SOSC_PROF_TABLE_SIZE ||
	    !sosc_prof_given->tables || !sosc_prof_tables_start()) {
		sosc_prof = NULL;
		return;
	}
	if (sosc_session->flags & SOSC_FLAG_FOLLOW)
		sosc_prof->flags |= SOSC_PROF_FOLLOWED;
	sosc_prof_mask = sosc_prof_given->period - 1;
	sosc_prof_sees_exits = !(plan->flags & SOSC_PLAN_ENTRY_ONLY);
	memset(starts_gprof, 0, sizeof(starts_gprof));
	if (sosc_prof_given->mode >= SOSC_PROF_SAMPLE)
		sosc_prof_calibrate();
	sosc_prof_entries_start(of_entries());
}

void sosc_instrument_prof(struct sosc_instrument *instrument)
{
	const struct sosc_prof *given = sosc_given(SOSC_INSTRUMENT_PROF, sizeof(*given));
	bool logs = given && given->mode == SOSC_PROF_LOG;

	instrument->needs = SOSC_NEEDS_IDS | SOSC_NEEDS_CLOCK;
	instrument->hooked = hooked;
	instrument->exit_handler = (uint64_t)(logs ? sosc_x_prof_log : sosc_x_prof);
	instrument->code = change_code;
	instrument->start = start;
	instrument->closed = closed;
}
