// SPDX-License-Identifier: Apache-2.0
// Calls that are logged, on stacks that are only numbers: each is one unit of the ring, whatever
// becomes of it, and says which one it was inside of.
#include "host.h"

#include "prof/log.h"
#include "base/instrument.h"
#include "thread/thread.h"

#undef memset
#include <string.h>
#include <sys/mman.h>

enum { STACK = 0x1000000, OTHER = 0x40000000, CHUNKS = 4, MOST = 20000 };

static struct sosc_prof *own;
static struct sosc_reported log_of[MOST];

static uint64_t function(uint32_t number)
{
	return 0x500000 + number * 0x100ull;
}

static void enter(uint32_t number, uint64_t from, uint64_t sp)
{
	sosc_prof_log_enter(function(number), from, function(number) + 20, sp);
}

static void leave(uint32_t number, uint64_t from, uint64_t sp)
{
	sosc_prof_log_exit(function(number), from, sp, 0);
}

// Takes all units that were written, as a reader does; how many.
static uint32_t drained(void)
{
	uint32_t *states = sosc_section(SOSC_SEC_CHUNK_STATES), count = 0;
	struct sosc_thread *thread = sosc_thread_self();

	(void)sosc_thread_writes_as(thread, thread->tid);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint8_t *chunk = (uint8_t *)sosc_section(SOSC_SEC_RING) + i * SOSC_CHUNK_SIZE;

		for (uint32_t at = SOSC_CHUNK_HEADER; at < SOSC_CHUNK_SIZE; at += SOSC_UNIT) {
			const struct sosc_reported *unit = (void *)(chunk + at);

			if (unit->commit >> 28 == SOSC_UNIT_REPORTED && count < MOST)
				log_of[count++] = *unit;
		}
		memset(chunk, 0, SOSC_CHUNK_SIZE);
		states[i] = SOSC_CHUNK_FREE;
	}
	sosc_control->ring_drained++;
	return count;
}

static uint64_t open_calls(void)
{
	struct sosc_prof_thread *thread = sosc_prof_thread_slow();

	return (uint64_t)(thread->next - sosc_prof_frames(thread->table));
}

static void check_nesting(void)
{
	enter(1, 0x400001, STACK);
	enter(2, 0x500130, STACK - 64);
	leave(2, 0x500130, STACK - 64);
	leave(1, 0x400001, STACK - 32);
	CHECK(drained() == 2 && !open_calls());
	CHECK(log_of[0].function == function(2) && log_of[1].function == function(1));
	CHECK(log_of[0].around == log_of[1].start && log_of[1].around == 0x400001);
	CHECK((log_of[1].commit & (SOSC_REPORTED_ROOT | SOSC_REPORTED_HOOK)) ==
	      (SOSC_REPORTED_ROOT | SOSC_PROF_CYG));
	CHECK(!(log_of[0].commit & ~(15u << 28 | SOSC_REPORTED_HOOK)));
	CHECK(log_of[0].start + log_of[0].ticks <= log_of[1].start + log_of[1].ticks);
}

// A longjmp out of 4 to 3, which calls 5: those that it has left are over.
static void check_jumps(void)
{
	enter(3, 0x400003, STACK);
	enter(4, 0x500330, STACK - 64);
	enter(4, 0x500430, STACK - 128);
	enter(5, 0x500340, STACK - 64);
	leave(5, 0x500340, STACK - 64);
	leave(3, 0x400003, STACK);
	CHECK(drained() == 4 && !open_calls());
	for (uint32_t i = 0; i < 4; i++)
		CHECK(!!(log_of[i].commit & SOSC_REPORTED_LEFT) ==
		      (log_of[i].function == function(4)));
	CHECK(log_of[2].function == function(5) && log_of[2].around == log_of[3].start);
}

static void check_coroutines(void)
{
	enter(8, 0x400008, STACK);
	enter(9, 0x400009, OTHER);
	enter(10, 0x500830, STACK - 64);
	enter(10, 0x500930, OTHER - 64);
	leave(10, 0x500830, STACK - 64);
	leave(8, 0x400008, STACK);
	leave(10, 0x500930, OTHER - 64);
	leave(9, 0x400009, OTHER);
	CHECK(drained() == 4 && !open_calls());
	CHECK(log_of[0].around == log_of[1].start && log_of[2].around == log_of[3].start);
	CHECK(log_of[1].function == function(8) && log_of[3].function == function(9));
}

// Those that find no frame are written when they begin.
static void check_depth(void)
{
	const uint32_t deep = SOSC_PROF_FRAMES + 100;
	uint32_t count = 0, unseen = 0;

	for (uint32_t i = 0; i < deep; i++) {
		enter(11, 0x500b30, STACK - 64 * i);
		if (i % 256 == 0)
			for (uint32_t n = drained(); n-- > 0; count++)
				unseen += !!(log_of[n].commit & SOSC_REPORTED_UNSEEN);
	}
	for (uint32_t i = deep; i-- > 0;) {
		leave(11, 0x500b30, STACK - 64 * i);
		if (i % 256 == 0)
			for (uint32_t n = drained(); n-- > 0; count++)
				unseen += !!(log_of[n].commit & SOSC_REPORTED_UNSEEN);
	}
	CHECK(count == deep && unseen == deep - (SOSC_PROF_FRAMES - 1) && !open_calls());
}

// What finds no room in the ring is a whole call.
static void check_room(void)
{
	const uint64_t before = sosc_control->dropped[SOSC_DROP_FULL];
	const uint32_t many = CHUNKS * 600;
	uint32_t kept;

	for (uint32_t i = 0; i < many; i++) {
		enter(12, 0x400000, STACK);
		leave(12, 0x400000, STACK);
	}
	kept = drained();
	CHECK(kept > 0 && kept < many);
	CHECK(kept + sosc_control->dropped[SOSC_DROP_FULL] - before == many);
}

// What nobody returns to is written at once; so is the call of a thread that has ended.
static void check_unseen(void)
{
	struct sosc_prof_thread *thread = sosc_prof_thread_slow();

	sosc_prof_log_bare(0x600000);
	CHECK(drained() == 1 && log_of[0].commit & SOSC_REPORTED_UNSEEN && !log_of[0].ticks);
	CHECK((log_of[0].commit & SOSC_REPORTED_HOOK) == SOSC_PROF_BARE && !log_of[0].around);
	enter(13, 0x40000d, STACK);
	sosc_prof_leave_all(thread, thread->table);
	CHECK(drained() == 1 && log_of[0].commit & SOSC_REPORTED_LEFT && !open_calls());
}

int main(void)
{
	const uint64_t size = 4096 + 3ull * SOSC_PROF_TABLE_SIZE;

	(void)host_control(SOSC_INSTRUMENT_PROF, CHUNKS);
	sosc_control->when_full = SOSC_FULL_DROP;
	own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	CHECK(own != MAP_FAILED);
	own->mode = SOSC_PROF_LOG;
	own->tables = 3;
	own->period = 1;
	own->used = 1;
	own->first_table = 4096;
	sosc_prof_given = sosc_prof = own;
	CHECK(sosc_prof_tables_start());
	check_nesting();
	check_jumps();
	check_coroutines();
	check_depth();
	check_room();
	check_unseen();
	return 0;
}
