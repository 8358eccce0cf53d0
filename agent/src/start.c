// SPDX-License-Identifier: Apache-2.0
// The agent's start, called by soscope while the target stands still at a
// function call boundary: maps what it needs, looks around, hooks.

#include "agent.h"
#include "sys.h"

struct sosc_control *sosc_control;
int64_t sosc_errno_offsets[SOSC_NAMESPACES];
uint8_t sosc_clock_off;
uint64_t sosc_cost_inner;
uint64_t sosc_cost_outer;
uint64_t sosc_base;

static long map_pages(const struct sosc_start *start, uint64_t at, uint64_t size, uint64_t offset)
{
	const uint64_t piece = (uint64_t)SOSC_BLOB_REPEAT * SOSC_PAGE;

	for (uint64_t done = 0; done < size; done += piece) {
		void *map = sosc_mmap((void *)(start->base + at + done), piece,
				      PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
				      start->blob_fd, offset);

		if (sosc_mmap_failed(map))
			return (long)map;
	}
	return 0;
}

// The shared file, at an address that is a multiple of the chunk size: a unit's
// place in its chunk is read off its address.
static long map_control(const struct sosc_start *start)
{
	const uint64_t mask = SOSC_CHUNK_SIZE - 1;
	uint64_t room = start->control_size + SOSC_CHUNK_SIZE, at, end;
	void *map = sosc_mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			      -1, 0);

	if (sosc_mmap_failed(map))
		return (long)map;
	at = ((uint64_t)map + mask) & ~mask;
	end = (at + start->control_size + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
	if (at > (uint64_t)map)
		(void)sosc_sys3(SYS_MUNMAP, (long)map, (long)(at - (uint64_t)map), 0);
	if ((uint64_t)map + room > end)
		(void)sosc_sys3(SYS_MUNMAP, (long)end, (long)((uint64_t)map + room - end), 0);
	map = sosc_mmap((void *)at, start->control_size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED, start->control_fd, 0);
	if (sosc_mmap_failed(map))
		return (long)map;
	sosc_control = map;
	return 0;
}

// Nothing may touch a variable before this has mapped them.
static long map_all(const struct sosc_start *start)
{
	const uint64_t piece = (uint64_t)SOSC_BLOB_REPEAT * SOSC_PAGE;
	const int flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t data = SOSC_BLOB_ENTRIES + SOSC_BLOB_DISTANCE;
	uint64_t end = ((uint64_t)sosc_end + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
	void *map;
	long error;

	map = sosc_mmap((void *)(start->base + data), end - start->base - data,
			PROT_READ | PROT_WRITE, flags, -1, 0);
	if (sosc_mmap_failed(map))
		return (long)map;
	error = map_pages(start, SOSC_BLOB_ENTRIES, SOSC_MAX_SLOTS * SOSC_ENTRY_SIZE,
			  start->pages_offset);
	if (!error)
		error = map_pages(start, SOSC_BLOB_SITES, SOSC_MAX_SITES * SOSC_SITE_SIZE,
				  start->pages_offset + piece);
	if (error)
		return error;
	return map_control(start);
}

static void read_clocks(struct sosc_control *control)
{
	uint64_t before = sosc_rdtsc();

	control->realtime_start = sosc_clock_ns(CLOCK_REALTIME);
	control->tsc_start = before + (sosc_rdtsc() - before) / 2;
	control->monotonic_start = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
}

// What an empty call costs its caller, and how long it appears to take itself.
// Measured on a cell of its own, whose traces are wiped.
static void calibrate(struct sosc_control *control)
{
	enum { CALLS = 64, ROUNDS = 12 };
	static const struct sosc_function plain;
	uint32_t cell;
	uint64_t direct = UINT64_MAX, hooked = UINT64_MAX, inner = UINT64_MAX;
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_stats *stats;

	control->cost_inner = (uint32_t)sosc_cost_inner;
	control->cost_outer = (uint32_t)sosc_cost_outer;
	if (control->mode != SOSC_MODE_STATS || sosc_cost_outer || !thread || !thread->counts)
		return;
	cell = sosc_cell_take();
	if (cell == SOSC_NONE)
		return;
	stats = (void *)(thread->counts + (uint64_t)&sosc_cells[cell] * 4);
	sosc_hooks[cell].function = &plain;
	sosc_cells[cell].original = (uint64_t)sosc_empty;
	sosc_cells[cell].handler = (uint64_t)sosc_h_stats;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t ticks = sosc_call_often((uint64_t)sosc_empty, CALLS);

		if (ticks < direct)
			direct = ticks;
		memset(stats, 0, sizeof(*stats));
		ticks = sosc_call_often(sosc_entry_of(cell), CALLS);
		if (ticks < hooked)
			hooked = ticks;
		if (stats->total < inner)
			inner = stats->total;
	}
	memset(stats, 0, sizeof(*stats));
	sosc_cells[cell].handler = (uint64_t)sosc_h_jump;
	thread->overhead = 0;
	sosc_cost_inner = inner / CALLS;
	sosc_cost_outer = hooked > direct ? (hooked - direct) / CALLS : 0;
	control->cost_inner = (uint32_t)sosc_cost_inner;
	control->cost_outer = (uint32_t)sosc_cost_outer;
}

// rdtsc faults in this program, whatever a session wants
static bool clock_is_forbidden, clock_was_unwanted;

static void start_again(void)
{
	clock_is_forbidden |= sosc_clock_off && !clock_was_unwanted;
	sosc_strings_again();
	sosc_ring_again();
	sosc_slots_again();
	sosc_threads_again();
}

// What whoever takes the agent out must know. The loader's function is changed when
// this has run, so that it is put back whatever happens in between.
static bool look_inside(const struct sosc_start *start)
{
	sosc_inside.wire_version = SOSC_WIRE_VERSION;
	sosc_inside.size = sizeof(sosc_inside);
	sosc_inside.control = (uint64_t)sosc_control;
	sosc_inside.control_size = start->control_size;
	sosc_inside.changes = (uint64_t)sosc_changes;
	sosc_inside.cells = (uint64_t)sosc_cells;
	sosc_inside.sitedata = (uint64_t)sosc_sitedata;
	sosc_inside.plain_jump = (uint64_t)sosc_h_jump;
	sosc_inside.plain_exit = (uint64_t)sosc_x_plain;
	sosc_inside.scratch = (uint64_t)sosc_scratch;
	sosc_inside.sessions++;
	__atomic_store_n(&sosc_inside.magic, SOSC_INSIDE_MAGIC, __ATOMIC_RELEASE);
	return sosc_change_note(NULL, start->brk, start->brk_before, start->brk_after, 8);
}

static long start_all(const struct sosc_start *start)
{
	struct sosc_control *control = sosc_control;
	long error;

	if (control->magic != SOSC_MAGIC || control->wire_version != SOSC_WIRE_VERSION)
		return -EINVAL;
	sosc_base = start->base;
	if (start->flags & SOSC_START_AGAIN)
		start_again();
	clock_was_unwanted = control->flags & SOSC_FLAG_NO_CLOCK;
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
	if (!(start->flags & SOSC_START_AGAIN)) {
		error = sosc_threads_init();
		if (error)
			return error;
	}
	if (!look_inside(start))
		return -ENOMEM;
	read_clocks(control);
	calibrate(control);
	control->agent_base = start->base;
	control->agent_size = SOSC_BLOB_SIZE;
	control->loader_hook = start->brk ? SOSC_LOADER_HOOKED : SOSC_LOADER_REFUSED;
	return sosc_images_start(start);
}

static long map_again(const struct sosc_start *start)
{
	struct sosc_control *old = sosc_control;
	long error = map_control(start);

	if (!error && start->flags & SOSC_START_UNMAP)
		(void)sosc_sys3(SYS_MUNMAP, (long)old, (long)sosc_inside.control_size, 0);
	return error;
}

/**
 * Start the agent. Called on a stack of soscope's, with everything stopped where
 * the loader is idle; closes both descriptors. With SOSC_START_AGAIN it was here
 * before and everything that it had changed has been put back. Return: 0 or
 * -errno; then nothing is hooked.
 */
__attribute__((visibility("default"))) long soscope_agent_start(const struct sosc_start *start)
{
	bool again = start->flags & SOSC_START_AGAIN;
	long error = again ? map_again(start) : map_all(start);

	if (start->blob_fd >= 0)
		(void)sosc_sys3(SYS_CLOSE, start->blob_fd, 0, 0);
	(void)sosc_sys3(SYS_CLOSE, start->control_fd, 0, 0);
	if (error)
		return error;
	error = start_all(start);
	sosc_control->error = (int32_t)error;
	__atomic_store_n(&sosc_control->state, error ? SOSC_STATE_FAILED : SOSC_STATE_RUNNING,
			 __ATOMIC_RELEASE);
	return error;
}
