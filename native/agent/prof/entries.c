// SPDX-License-Identifier: Apache-2.0
// Functions that were compiled with room at their entry: no-operations, and a list of their
// addresses (-fpatchable-function-entry). A call is written there, which does the same as a call of
// __fentry__.
//
// No thread executes such code while it is written: the process is stopped, or its image has just
// been loaded. If threads may stand between several no-operations, soscope writes the code, since
// it knows where the threads stand. Then only the journal tells what is to be written.

#include "prof/entries.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/memory.h"
#include "base/sys.h"
#include "hook/hook.h"
#include "hook/select.h"
#include "image/changes.h"
#include "image/frame.h"
#include "image/image.h"
#include "image/lookup.h"
#include "image/section.h"
#include "prof/prof.h"

enum {
	LISTS = 256, // adjacent lists count as one
	OFTEN = 16, // entries between looks at the clock
	DEFERRED_MOST = 1000, // entries that soscope is to write in one turn
	BEFORE = 8, // bytes in front of a listed address that are read, too
	BEHIND = 128, // bytes behind the page that are read, too
	WORD = 8,
};

static struct {
	const struct sosc_loaded *image;
	struct sosc_extent lists[LISTS];
	uint32_t count;
} found;

// Code that is to be written: some bytes of a copy of a page and of the bytes behind it.
static struct {
	uint64_t at, size;
	uint64_t low, high; // range of the bytes that were changed
	uint32_t entries; // number of entries in it
	uint8_t bytes[SOSC_PAGE + BEHIND];
} window;

static void add(uint32_t *what, uint32_t how_many)
{
	// children that are followed share the counter
	__atomic_fetch_add(what, how_many, __ATOMIC_RELAXED);
}

static void leave(enum sosc_prof_left why)
{
	add(&sosc_prof->left[why], 1);
}

static void flush(void)
{
	if (!window.entries)
		return;
	if (sosc_write(window.at + window.low, window.bytes + window.low, window.high - window.low,
		       true))
		add(&sosc_prof->entries, window.entries);
	else
		add(&sosc_prof->left[SOSC_PROF_LEFT_WRITE], window.entries);
	window.entries = 0;
	window.low = sizeof(window.bytes);
	window.high = 0;
}

static void forget_window(void)
{
	window.at = window.size = window.entries = 0;
	window.low = sizeof(window.bytes);
	window.high = 0;
}

// Moves the window to the code around @addr. Returns false if it cannot be read.
static bool look(uint64_t addr)
{
	uint64_t at = (addr - BEFORE) & ~(uint64_t)(SOSC_PAGE - 1);

	if (window.at != at || !window.size) {
		flush();
		window.at = at;
		window.size = sosc_read((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0), window.bytes, at,
					sizeof(window.bytes));
	}
	return window.at + window.size > addr;
}

static uint8_t *code_at(uint64_t addr)
{
	return window.bytes + (addr - window.at);
}

// Returns the start of the function that has the no-operation at @addr, or 0 if the unwind tables
// do not tell it. There may be no-operations in front of the start, and a landing mark in front
// of these.
static uint64_t start_of(const struct sosc_loaded *image, uint64_t addr)
{
	const uint8_t *end = window.bytes + window.size;
	uint64_t behind = addr + sosc_nops_size(code_at(addr), end);
	uint32_t mark = sosc_mark_size(code_at(addr), end);
	struct sosc_frame function;

	if (!sosc_frame_at(image, behind, &function))
		return mark ? addr : 0;
	if (function.start >= addr && function.start <= behind)
		return function.start;
	if (function.start < addr && function.start >= window.at &&
	    function.start + sosc_mark_size(code_at(function.start), end) == addr)
		return function.start;
	return 0;
}

// Notes in the journal that @size bytes at @addr become @code. One entry of the journal holds eight
// bytes.
static bool note(const struct sosc_loaded *image, uint64_t addr, const uint8_t *code,
		 struct sosc_room room)
{
	for (uint32_t done = 0; done < room.size; done += WORD) {
		uint32_t size = room.size - done < WORD ? room.size - done : WORD;
		struct sosc_change change = {.addr = addr + done, .size = (uint8_t)size};

		change.flags = room.is_split ? SOSC_CHANGE_SPLIT : 0;
		memcpy(&change.before, code_at(addr + done), size);
		memcpy(&change.after, code + done, size);
		if (!sosc_change_code(image, change))
			return false;
	}
	return true;
}

static void patch(const struct sosc_hooking *work, uint64_t addr, uint64_t start)
{
	const uint8_t *end = window.bytes + window.size;
	uint64_t at = start + sosc_mark_size(code_at(start), end), stub;
	struct sosc_room room = sosc_room_at(code_at(at), end);
	uint8_t code[SOSC_ROOM_MOST];

	stub = sosc_prof_stub(work->image);
	if (stub && sosc_called_at(code_at(at), end, at) == stub)
		return; // the list has this function twice
	if (!room.size)
		leave(room.is_other && addr >= start ? SOSC_PROF_LEFT_OTHER : SOSC_PROF_LEFT_SMALL);
	else if (!stub || !sosc_write_call(code, room.size, at, stub) ||
		 !note(work->image, at, code, room))
		leave(SOSC_PROF_LEFT_FULL);
	else if (work->defers) {
		memcpy(code_at(at), code, room.size); // so that it is not found a second time
		add(&sosc_prof->entries, 1);
	} else {
		memcpy(code_at(at), code, room.size);
		if (at - window.at < window.low)
			window.low = at - window.at;
		if (at - window.at + room.size > window.high)
			window.high = at - window.at + room.size;
		window.entries++;
	}
}

static void see(const struct sosc_hooking *work, uint64_t addr)
{
	uint64_t start;

	if (!addr || !sosc_addr_executable(work->image, addr))
		return; // the linker has removed the function
	if (!look(addr)) {
		leave(SOSC_PROF_LEFT_WRITE);
		return;
	}
	start = start_of(work->image, addr);
	if (!start || start >= window.at + window.size)
		leave(SOSC_PROF_LEFT_START);
	else
		patch(work, addr, start);
}

// Code that calls hooks as well would report each call twice.
static bool has_hooks(const struct sosc_loaded *image)
{
	static const char names[][25] = {"mcount", "_mcount", "__fentry__",
					 "__cyg_profile_func_enter"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (sosc_imports(image, names[i]))
			return true;
	return false;
}

static bool is_wanted(const struct sosc_hooking *work)
{
	const struct sosc_plan *plan = sosc_plan_in(sosc_session, SOSC_INSTRUMENT_PROF);

	return sosc_prof && plan && sosc_prof_given->mode != SOSC_PROF_QUIET &&
	       sosc_is_chosen(plan, "__fentry__", NULL) && work->image->path[0];
}

static bool find_lists(const struct sosc_hooking *work)
{
	uint32_t count = sosc_find_sections(work->image, "__patchable_function_entries",
					    work->alone, found.lists, LISTS);

	found.image = work->image;
	found.count = count && count != SOSC_NONE && !has_hooks(work->image) ? count : 0;
	if (count == SOSC_NONE && work->image->path[0] == '/')
		add(&sosc_prof->unread, 1);
	return found.count;
}

// Returns the address with this number in all lists. Returns false if there is none.
static bool listed(uint64_t number, uint64_t *addr)
{
	for (uint32_t i = 0; i < found.count; i++) {
		uint64_t count = found.lists[i].size / WORD;

		if (number < count) {
			memcpy(addr, (const void *)(found.lists[i].addr + number * WORD), WORD);
			return true;
		}
		number -= count;
	}
	return false;
}

/**
 * Patch the entries of an image, if they are wanted. Return false if the time @until has come
 * first.
 */
bool sosc_prof_entries(struct sosc_hooking *work, uint64_t until)
{
	uint32_t seen = 0;
	uint64_t addr;
	bool done = true;

	if (!is_wanted(work))
		return true;
	if ((!work->next || found.image != work->image) && !find_lists(work))
		return true;
	forget_window();
	while (listed(work->next, &addr)) {
		see(work, addr);
		work->next++;
		if (++seen % OFTEN == 0 &&
		    (sosc_is_over(until) || (work->defers && seen >= DEFERRED_MOST))) {
			done = false;
			break;
		}
	}
	flush();
	forget_window();
	if (done)
		work->next = 0;
	return done;
}
