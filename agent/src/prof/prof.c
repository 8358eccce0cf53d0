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

// Somebody else's calls: of a profiler that is no part of the C library, or of gprof's, where that
// runs because the program was linked for it.
static bool is_foreign(const struct sosc_candidate *at, bool by_gmon)
{
	const struct sosc_loaded *callee = at->callee;

	return !callee || !(callee->loader || sosc_same(callee->name, "libc.so.6")) ||
	       (by_gmon && sosc_imports(&sosc_loaded[0], "__monstartup"));
}

static uint64_t for_exits(void (*with)(void), void (*without)(void), uint32_t mode)
{
	return (uint64_t)(mode >= SOSC_PROF_SAMPLE && sees_exits ? with : without);
}

static uint64_t hooked(const struct sosc_candidate *at, uint32_t cell)
{
	bool by_mcount = is_mcount(at->symbol), by_fentry = sosc_same(at->symbol, "__fentry__");
	bool times = sosc_prof && sosc_prof->mode >= SOSC_PROF_SAMPLE;

	(void)cell;
	if (!sosc_prof || is_foreign(at, by_mcount || by_fentry)) {
		if (sosc_prof)
			__atomic_fetch_add(&sosc_prof->foreign, 1, __ATOMIC_RELAXED);
		return (uint64_t)sosc_h_jump;
	}
	__atomic_fetch_add(&sosc_prof->slots, 1, __ATOMIC_RELAXED);
	if (sosc_prof->mode == SOSC_PROF_QUIET)
		return (uint64_t)sosc_prof_quiet;
	if (by_mcount)
		return for_exits(sosc_h_prof_mcount, sosc_h_prof_mcount_count, sosc_prof->mode);
	if (by_fentry)
		return for_exits(sosc_h_prof_fentry, sosc_h_prof_fentry_count, sosc_prof->mode);
	if (sosc_same(at->symbol, "__cyg_profile_func_enter"))
		return times ? (uint64_t)sosc_h_prof_enter : (uint64_t)sosc_h_prof_count;
	if (sosc_same(at->symbol, "__cyg_profile_func_exit"))
		return times ? (uint64_t)sosc_h_prof_exit : (uint64_t)sosc_prof_quiet;
	return (uint64_t)sosc_h_prof_bare;
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
	if (sees_exits && sosc_prof_has_shadow_stack()) {
		sosc_prof->flags |= SOSC_PROF_SHADOW_STACK;
		sees_exits = false;
	}
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
