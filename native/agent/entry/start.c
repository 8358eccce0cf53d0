// SPDX-License-Identifier: Apache-2.0
// The agent's start: soscope calls it while the target is stopped at the boundary of a function
// call. It maps what the agent needs, examines the process, and hooks slots. This file also brings
// the agent to rest.

#include "entry/start.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/memory.h"
#include "base/session.h"
#include "base/state.h"
#include "base/sys.h"
#include "blocks/threadstacks.h"
#include "call/cell.h"
#include "call/counter.h"
#include "call/gate.h"
#include "call/handler.h"
#include "call/site.h"
#include "hook/execs.h"
#include "hook/known.h"
#include "hook/loader.h"
#include "hook/patch.h"
#include "hook/shadow.h"
#include "hook/slot.h"
#include "image/changes.h"
#include "image/loads.h"
#include "image/namespace.h"
#include "objects/common/objects.h"
#include "prof/entries.h"
#include "prof/prof.h"
#include "ring/record.h"
#include "ring/ring.h"
#include "thread/counts.h"
#include "thread/thread.h"
#include "vm/pythonstack.h"
#include "vm/rubystack.h"

_Static_assert(sizeof(sosc_quiet) == 1 && sizeof(sosc_objects_count) == 1, "soscope has bytes");

enum { FEW_PAGES = 4 };

// Maps trampolines. The file has each page many times, so that a few mappings suffice. A page that
// is used brings up to 15 neighbours in its mapping into memory. So the first and the last
// trampolines, the only ones that most programs use, are in small mappings.
static long map_pages(const struct sosc_start *start, uint64_t at, uint64_t size, uint64_t offset)
{
	const uint64_t piece = (uint64_t)SOSC_BLOB_REPEAT * SOSC_PAGE;
	const uint64_t few = (uint64_t)FEW_PAGES * SOSC_PAGE;

	for (uint64_t done = 0, part; done < size; done += part) {
		void *map;

		part = done == 0 || done == size - few ? few :
		       done + piece >= size	       ? size - few - done :
							 piece - done % piece;
		map = sosc_mmap((void *)(start->base + at + done), part, PROT_READ | PROT_EXEC,
				MAP_PRIVATE | MAP_FIXED, start->blob_fd, offset);
		if (sosc_mmap_failed(map))
			return (long)map;
	}
	return 0;
}

static long map_trampolines(const struct sosc_start *start)
{
	const uint64_t piece = (uint64_t)SOSC_BLOB_REPEAT * SOSC_PAGE;
	long error = map_pages(start, SOSC_BLOB_ENTRIES, SOSC_MAX_SLOTS * SOSC_ENTRY_SIZE,
			       start->pages_offset);

	if (!error)
		error = map_pages(start, SOSC_BLOB_SITES, SOSC_MAX_SITES * SOSC_SITE_SIZE,
				  start->pages_offset + piece);
	if (!error)
		error = map_pages(start, SOSC_BLOB_COUNTERS, SOSC_MAX_COUNTERS * SOSC_COUNTER_SIZE,
				  start->pages_offset + 2 * piece);
	return error;
}

// Maps all memory. No variable may be used before that.
static long map_all(const struct sosc_start *start)
{
	// The tables have room for far more than most programs need. The kernel does not count a
	// mapping that grows down for RLIMIT_DATA. This one cannot grow, because the trampolines
	// lie below it.
	const int flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_GROWSDOWN;
	uint64_t data = SOSC_BLOB_ENTRIES + SOSC_BLOB_DISTANCE;
	void *map;
	long error;

	map = sosc_mmap((void *)(start->base + data), SOSC_BLOB_SIZE - data, PROT_READ | PROT_WRITE,
			flags, -1, 0);
	if (sosc_mmap_failed(map))
		return (long)map;
	error = map_trampolines(start);
	return error ? error : sosc_session_map(start);
}

static void read_clocks(struct sosc_control *control)
{
	uint64_t before = sosc_ticks();

	control->realtime_start = sosc_clock_ns(CLOCK_REALTIME);
	control->tsc_start = before + (sosc_ticks() - before) / 2;
	control->monotonic_start = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
	sosc_tsc_start = control->tsc_start;
}

// Reading the clock faults in this program, whatever a session wants; the last session did not want
// the clock
static bool clock_is_forbidden, clock_was_unwanted;

static void start_again(const struct sosc_start *start)
{
	clock_is_forbidden |= sosc_clock_off && !clock_was_unwanted;
	sosc_sealed = 0; // soscope has examined the filters of this process itself
	sosc_strings_again();
	sosc_ring_again();
	sosc_slots_again();
	sosc_known_again();
	sosc_threads_again(start->tid_offset);
}

// Fills in what soscope needs to take the agent out. The loader's function is changed after this
// has run, so it is restored whatever happens in between.
static bool look_inside(const struct sosc_start *start)
{
	sosc_inside.wire_version = SOSC_WIRE_VERSION;
	sosc_inside.size = sizeof(sosc_inside);
	sosc_inside.tables = SOSC_TABLES;
	sosc_inside.control = (uint64_t)sosc_control;
	sosc_inside.control_size = start->control_size;
	sosc_inside.changes = (uint64_t)sosc_changes;
	sosc_inside.cells = (uint64_t)sosc_cells;
	sosc_inside.sitedata = (uint64_t)sosc_sitedata;
	sosc_inside.plain_jump = (uint64_t)sosc_h_jump;
	sosc_inside.plain_exit = (uint64_t)sosc_x_plain;
	sosc_inside.scratch = (uint64_t)sosc_scratch;
	sosc_inside.program = (uint64_t)soscope_agent_program;
	sosc_inside.rest = (uint64_t)soscope_agent_rest;
	sosc_inside.trap = (uint64_t)sosc_trap;
	sosc_inside.quiet = (uint64_t)&sosc_quiet;
	sosc_inside.counts = (uint64_t)&sosc_objects_count;
	sosc_inside.stubs = (uint64_t)sosc_prof_stubs();
	sosc_inside.threads = (uint64_t)sosc_threads;
	sosc_inside.is_resting = 0;
	sosc_inside.sessions++;
	__atomic_store_n(&sosc_inside.magic, SOSC_INSIDE_MAGIC, __ATOMIC_RELEASE);
	return sosc_change_loader(start->brk, start->brk_before, start->brk_after);
}

// The tables of instruments and languages hold addresses. They cannot be constants, because the
// agent has no relocations.
static void fill_in_tables(void)
{
#define SOSC_FILL_IN(name, file) sosc_instrument_##file(&sosc_instruments[SOSC_INSTRUMENT_##name]);
	SOSC_INSTRUMENTS(SOSC_FILL_IN)
#undef SOSC_FILL_IN
	sosc_language_python();
	sosc_language_ruby();
}

static long start_all(const struct sosc_start *start)
{
	struct sosc_control *control = sosc_control;
	long error;

	if (control->magic != SOSC_MAGIC || control->wire_version != SOSC_WIRE_VERSION ||
	    !sosc_session_begin(start->control_size, sosc_session_plan(), start->plan_size))
		return -EINVAL;
	sosc_base = start->base;
	sosc_stack_end = start->stack_end & ~7ull;
	fill_in_tables();
	sosc_instruments_init();
	(void)sosc_sys3(SYS_MADVISE, (long)control, (long)start->control_size, MADV_DONTDUMP);
	(void)sosc_sys3(SYS_MADVISE, (long)sosc_session_plan(), (long)start->plan_size,
			MADV_DONTDUMP);
	sosc_counts_start(start->control_size, sosc_session_place());
	if (start->flags & SOSC_START_AGAIN)
		start_again(start);
	clock_was_unwanted = sosc_session->flags & SOSC_FLAG_NO_CLOCK;
	sosc_clock_off = clock_was_unwanted || clock_is_forbidden;
	if (clock_is_forbidden)
		control->agent_flags |= SOSC_AGENT_TSC_OFF;
	if (start->errno_offset != INT64_MIN) {
		for (int ns = 0; ns < SOSC_NAMESPACES; ns++)
			sosc_errno_offsets[ns] = start->errno_offset;
		control->agent_flags |= SOSC_AGENT_ERRNO;
	}
	if (!control->strings)
		control->strings = 1; // offset 0 is the empty string
	sosc_sites_init();
	sosc_patches_start();
	if (!(start->flags & SOSC_START_AGAIN)) {
		error = sosc_threads_init(start->tid_offset);
		if (error)
			return error;
	}
	if (!look_inside(start))
		return -ENOMEM;
	sosc_counters_start();
	read_clocks(control);
	sosc_gate_start();
	sosc_instruments_start();
	control->agent_base = start->base;
	control->agent_size = SOSC_BLOB_SIZE;
	control->loader_hook = start->brk ? SOSC_LOADER_HOOKED : SOSC_LOADER_REFUSED;
	return sosc_images_start(start);
}

static long map_again(const struct sosc_start *start)
{
	struct sosc_control *old = sosc_control;
	// at rest, only the pages in use are mapped
	long error = sosc_inside.is_resting ? map_trampolines(start) : 0;

	if (!error)
		error = sosc_session_map(start);
	if (error)
		return error;
	// Usually the soscope of that session has done this already. Code that still uses the block
	// reads zeros.
	old->command = SOSC_COMMAND_STOP;
	(void)sosc_sys3(SYS_MADVISE, (long)old + SOSC_PAGE,
			(long)(sosc_inside.control_size - SOSC_PAGE), MADV_REMOVE);
	sosc_session_forget_plan();
	return 0;
}

/**
 * Start the agent. Called on a stack of soscope's, with all threads stopped while the loader is
 * idle. Closes all descriptors. With SOSC_START_AGAIN the agent was started before, and everything
 * that it had changed has been restored. Return 0 or -errno; then nothing is hooked.
 */
__attribute__((visibility("default"))) long soscope_agent_start(const struct sosc_start *start)
{
	bool again = start->flags & SOSC_START_AGAIN;
	long error = again ? map_again(start) : map_all(start);

	if (!error)
		sosc_execs_start(start);
	if (start->blob_fd >= 0)
		(void)sosc_sys3(SYS_CLOSE, start->blob_fd, 0, 0);
	(void)sosc_sys3(SYS_CLOSE, start->control_fd, 0, 0);
	(void)sosc_sys3(SYS_CLOSE, start->plan_fd, 0, 0);
	if (start->execs_fd >= 0)
		(void)sosc_sys3(SYS_CLOSE, start->execs_fd, 0, 0);
	if (error)
		return error;
	error = start_all(start);
	sosc_control->error = (int32_t)error;
	__atomic_store_n(&sosc_control->state, error ? SOSC_STATE_FAILED : SOSC_STATE_RUNNING,
			 __ATOMIC_RELEASE);
	return error;
}

// ---- at rest ---------------------------------------------------------------------

// The agent at rest: between sessions it keeps its code, its trampolines and what they lead to,
// because addresses of trampolines may have been copied anywhere. All other memory of a session is
// unmapped. soscope calls this when everything that was changed is restored, all threads are
// stopped, and no thread is in the agent or will return there.

/**
 * Unmap the memory of a session. Return 0. Return -EBUSY and do nothing if objects of an
 * interpreter are being counted, which continues without a session. Return -EINVAL and do nothing
 * if something is still changed.
 */
__attribute__((visibility("default"))) long soscope_agent_rest(uint64_t unused)
{
	(void)unused;
	if (sosc_inside.change_count || !sosc_threads)
		return -EINVAL;
	if (sosc_objects_count)
		return -EBUSY;
	sosc_instruments_rest();
	sosc_execs_rest();
	sosc_cells_rest();
	sosc_known_rest();
	sosc_loads_rest();
	sosc_prof_rest();
	sosc_shadow_rest();
	sosc_threads_rest();
	sosc_memory_rest();
	sosc_made_threads_rest();
	sosc_objects_rest();
	sosc_counts_rest();
	sosc_session_rest();
	sosc_strings_again();
	sosc_memory_clear(sosc_hints, sizeof(sosc_hints));
	sosc_memory_clear(sosc_changes, sizeof(sosc_changes));
	sosc_inside.is_resting = 1;
	return 0;
}
