// SPDX-License-Identifier: Apache-2.0
// Hooks that nobody wants called: where code calls one through a slot that holds its address, the call
// becomes a no-operation of its size, so that code takes no longer than with room at its entries. One
// instruction takes the place of one: whatever a thread stands at, or returns to, is right before and
// after. What is not known to be an instruction keeps its call, which does nothing either.
//
// Who writes is as with entries: the agent where nobody runs the code, else soscope by the journal.

#include "silence.h"
#include "changes.h"
#include "frame.h"
#include "image.h"
#include "loads.h"
#include "memory.h"
#include "prof.h"
#include "scan.h"
#include "slot.h"

// What is to be written: the code from the lowest no-operation to the end of the highest one, at the
// end of `bytes`. Call sites come from the last one on.
struct window {
	uint64_t low, high;
	uint8_t bytes[SOSC_PAGE];
};

static void flush(struct window *window)
{
	uint64_t size = window->high - window->low;

	if (size) // where it cannot be done, the calls stay
		(void)sosc_write(window->low, window->bytes + sizeof(window->bytes) - size, size,
				 true);
	window->low = window->high = 0;
}

static void put(struct window *window, uint64_t addr, const uint8_t *code)
{
	uint64_t end = addr + SOSC_PROF_CALL_SIZE, gap;
	uint8_t *to;

	if (end > window->low || window->high - addr > sizeof(window->bytes)) {
		flush(window);
		window->low = window->high = end;
	}
	gap = window->low - end;
	to = window->bytes + sizeof(window->bytes) - (window->high - addr);
	memcpy(to + SOSC_PROF_CALL_SIZE, (const void *)end, gap);
	memcpy(to, code, SOSC_PROF_CALL_SIZE);
	window->low = addr;
}

static bool note(const struct sosc_loaded *image, uint64_t addr, const uint8_t *code)
{
	struct sosc_change change = {.addr = addr, .size = SOSC_PROF_CALL_SIZE};

	memcpy(&change.before, (const void *)addr, SOSC_PROF_CALL_SIZE);
	memcpy(&change.after, code, SOSC_PROF_CALL_SIZE);
	return sosc_change_code(image, change);
}

/** Have no code call the hook whose slot is @at, and is about to be hooked. */
void sosc_prof_silence(const struct sosc_candidate *at)
{
	const struct sosc_scan *scan = at->scan;
	struct window window = {0};

	// elsewhere the address may be had in other ways, or the code leads to another slot
	if (at->kind != SOSC_SLOT_GLOB_DAT || !scan || scan->sites_lost ||
	    !sosc_has_frames(at->image))
		return;
	for (uint32_t i = at->uses->site; i; i = scan->sites[i].next) {
		uint64_t displacement = scan->image->start + scan->sites[i].offset;
		const uint8_t *code;
		uint64_t addr;

		code = sosc_prof_no_call(displacement, &addr);
		if (code && sosc_is_displacement(at->image, displacement) &&
		    note(at->image, addr, code) && !at->defers)
			put(&window, addr, code);
	}
	flush(&window);
}
