// SPDX-License-Identifier: Apache-2.0
// Calls that instrumented code reports itself: its hooks lead here, by slots as any function's.

#include "instrument.h"
#include "handler.h"
#include "image.h"
#include "lookup.h"
#include "prof.h"
#include "slot.h"
#include "times.h"

static bool sees_exits; // of functions that do not report their returns

static bool is_mcount(const char *symbol)
{
	return sosc_same(symbol, "mcount") || sosc_same(symbol, "_mcount");
}

static bool is_of_libc(const struct sosc_candidate *at)
{
	const struct sosc_loaded *callee = at->callee;

	return callee && (callee->loader || sosc_same(callee->name, "libc.so.6"));
}

// mcount and __fentry__ of the C library, while nobody else has a use for what they do: gprof's
// half of it runs where the program was linked for it.
static uint64_t of_mcount(const struct sosc_candidate *at, bool is_fentry)
{
	bool sees = sosc_prof->mode >= SOSC_PROF_SAMPLE && sees_exits;

	if (!is_of_libc(at) || sosc_imports(&sosc_loaded[0], "__monstartup")) {
		__atomic_fetch_add(&sosc_prof->foreign, 1, __ATOMIC_RELAXED);
		return (uint64_t)sosc_h_jump;
	}
	if (sosc_prof->mode == SOSC_PROF_QUIET)
		return (uint64_t)sosc_prof_quiet;
	if (is_fentry)
		return (uint64_t)(sees ? sosc_h_prof_fentry : sosc_h_prof_fentry_count);
	return (uint64_t)(sees ? sosc_h_prof_mcount : sosc_h_prof_mcount_count);
}

// The C library's own do nothing. Others are the program's, and it wants them called.
static uint64_t of_cyg(const struct sosc_candidate *at)
{
	bool own = !is_of_libc(at), times = sosc_prof->mode >= SOSC_PROF_SAMPLE;

	if (sosc_prof->mode == SOSC_PROF_QUIET)
		return (uint64_t)(own ? sosc_h_jump : sosc_prof_quiet);
	if (sosc_same(at->symbol, "__cyg_profile_func_enter_bare"))
		return (uint64_t)(own ? sosc_h_prof_own_bare : sosc_h_prof_bare);
	if (sosc_same(at->symbol, "__cyg_profile_func_exit")) {
		if (own)
			return (uint64_t)(times ? sosc_h_prof_own_exit : sosc_h_jump);
		return (uint64_t)(times ? sosc_h_prof_exit : sosc_prof_quiet);
	}
	if (own)
		return (uint64_t)(times ? sosc_h_prof_own_enter : sosc_h_prof_own_count);
	return (uint64_t)(times ? sosc_h_prof_enter : sosc_h_prof_count);
}

static uint64_t hooked(const struct sosc_candidate *at, uint32_t cell)
{
	bool is_fentry = sosc_same(at->symbol, "__fentry__");

	(void)cell;
	if (!sosc_prof)
		return (uint64_t)sosc_h_jump;
	__atomic_fetch_add(&sosc_prof->slots, 1, __ATOMIC_RELAXED);
	if (is_fentry || is_mcount(at->symbol))
		return of_mcount(at, is_fentry);
	return of_cyg(at);
}

static void start(void)
{
	const struct sosc_plan *plan = sosc_plan_in(sosc_control, SOSC_INSTRUMENT_PROF);

	sosc_prof = sosc_own(SOSC_INSTRUMENT_PROF, sizeof(*sosc_prof));
	if (!sosc_prof || !plan || sosc_prof->mode >= SOSC_PROF_MODES || !sosc_prof->period ||
	    plan->own.size <
		    sosc_prof->first_table + (uint64_t)sosc_prof->tables * SOSC_PROF_TABLE_SIZE ||
	    !sosc_prof->tables || !sosc_prof_tables_start()) {
		sosc_prof = NULL;
		return;
	}
	sosc_prof_mask = sosc_prof->period - 1;
	sees_exits = !(plan->flags & SOSC_PLAN_ENTRY_ONLY);
	if (sosc_prof->mode >= SOSC_PROF_SAMPLE)
		sosc_prof_calibrate();
}

void sosc_instrument_prof(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_IDS | SOSC_NEEDS_CLOCK;
	instrument->hooked = hooked;
	instrument->exit_handler = (uint64_t)sosc_x_prof;
	instrument->start = start;
}
