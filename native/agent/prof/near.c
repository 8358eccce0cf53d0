// SPDX-License-Identifier: Apache-2.0
// Stubs near images, which are called by patched entries, and the cell to which all of them lead.
// They stay until soscope has seen that no thread is in one. The journal tells how to make the cell
// do nothing.

#include "base/memory.h"
#include "base/sys.h"
#include "call/cell.h"
#include "hook/shadow.h"
#include "image/changes.h"
#include "prof/entries.h"
#include "prof/prof.h"

static uint64_t stubs[SOSC_STUBS_MOST];
static uint32_t stub_count;
static uint32_t cell; // cell of all stubs, 0 if there is none yet
static bool is_ready; // the cell is set up for this session

/** A session begins. Calls through the stubs go to @handler. */
void sosc_prof_entries_start(uint64_t handler)
{
	static const struct sosc_function plain;
	uint64_t *word;

	is_ready = false;
	if (!cell) {
		cell = sosc_cell_take();
		if (cell == SOSC_NONE)
			cell = 0;
	}
	if (!cell)
		return;
	sosc_layers[cell].function = &plain;
	sosc_layers[cell].instrument = SOSC_INSTRUMENT_PROF;
	sosc_layers[cell].session = sosc_inside.sessions;
	sosc_cells[cell].original = (uint64_t)sosc_prof_entry_quiet;
	word = &sosc_cells[cell].handler;
	__atomic_store_n(word, (uint64_t)sosc_prof_entry_quiet, __ATOMIC_RELAXED);
	is_ready = sosc_change_code(NULL, (struct sosc_change){.addr = (uint64_t)word,
							       .before = *word,
							       .after = handler,
							       .size = sizeof(*word)});
	if (is_ready)
		__atomic_store_n(word, handler, __ATOMIC_RELEASE);
}

/** This process records nothing (any more). */
void sosc_prof_entries_mute(void)
{
	if (cell)
		__atomic_store_n(&sosc_cells[cell].handler, (uint64_t)sosc_prof_entry_quiet,
				 __ATOMIC_RELAXED);
}

static uint64_t make_stub(const struct sosc_loaded *image)
{
	uint64_t at = stub_count < SOSC_STUBS_MOST ? sosc_map_near(image, SOSC_PAGE) : 0;
	uint8_t code[SOSC_ENTRY_STUB];
	void *map;

	if (!at)
		return 0;
	map = sosc_mmap((void *)at, SOSC_PAGE, PROT_READ | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	sosc_write_stub(code, (uint64_t)&sosc_cells[cell]);
	if (sosc_mmap_failed(map) || !sosc_write(at, code, sizeof(code), true)) {
		(void)sosc_sys3(SYS_MUNMAP, (long)at, SOSC_PAGE, 0);
		return 0;
	}
	stubs[stub_count++] = at;
	return at;
}

/**
 * Return a stub that all code of the image can reach and that leads to the handler, or 0 if there
 * is none.
 */
uint64_t sosc_prof_stub(const struct sosc_loaded *image)
{
	for (uint32_t i = 0; is_ready && i < stub_count; i++)
		if (sosc_is_near(image, stubs[i], SOSC_PAGE))
			return stubs[i];
	return is_ready ? make_stub(image) : 0;
}

/** Return the addresses of the stubs' pages. The first 0 ends the list. */
const uint64_t *sosc_prof_stubs(void)
{
	return stubs;
}

/** No entry calls the stubs any more, and no thread is in one: unmap their pages. */
void sosc_prof_stubs_rest(void)
{
	is_ready = false;
	while (stub_count) {
		stub_count--;
		(void)sosc_sys3(SYS_MUNMAP, (long)stubs[stub_count], SOSC_PAGE, 0);
		stubs[stub_count] = 0;
	}
}
