// SPDX-License-Identifier: Apache-2.0
// Hooks that need not be called. If code calls such a hook, through the slot that holds its address
// or by the linker's stub that jumps there, the call is replaced by a no-operation of the same
// size. So the code takes no longer than code with room at its entries. Each instruction is
// replaced by one instruction, so any address at which a thread stands, or to which it returns, is
// valid before and after. If it is not certain that an instruction begins there, the call stays. It
// goes to a function that does nothing.
//
// The code is written as for entries: by the agent if no thread executes it, otherwise by soscope
// from the journal.

#include "prof/silence.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/memory.h"
#include "call/cell.h"
#include "hook/hook.h"
#include "image/changes.h"
#include "image/frame.h"
#include "image/image.h"
#include "image/loads.h"
#include "prof/prof.h"

enum {
	OFTEN = 16, // calls between looks at the clock
	DEFERRED_MOST = 1000, // calls that soscope is to write in one turn
	CHANGES_MOST = SOSC_MAX_CHANGES / 2, // slots of images that are loaded later need room
};

// Code that is to be written: from the lowest no-operation to the end of the highest. It stands at
// the end of `bytes`, since the calls are visited from the last one to the first.
struct window {
	uint64_t low, high;
	uint8_t bytes[SOSC_PAGE];
};

static void flush(struct window *window)
{
	uint64_t size = window->high - window->low;

	if (size) // if this fails, the calls stay
		(void)sosc_write(window->low, window->bytes + sizeof(window->bytes) - size, size,
				 true);
	window->low = window->high = 0;
}

static void put(struct window *window, const struct sosc_no_call *call)
{
	uint64_t end = call->addr + call->size, gap;
	uint8_t *to;

	if (end > window->low || window->high - call->addr > sizeof(window->bytes)) {
		flush(window);
		window->low = window->high = end;
	}
	gap = window->low - end;
	to = window->bytes + sizeof(window->bytes) - (window->high - call->addr);
	memcpy(to + call->size, (const void *)end, gap);
	memcpy(to, call->code, call->size);
	window->low = call->addr;
}

static bool note(const struct sosc_loaded *image, const struct sosc_no_call *call)
{
	struct sosc_change change = {.addr = call->addr, .size = (uint8_t)call->size};

	if (sosc_inside.change_count >= CHANGES_MOST)
		return false;
	memcpy(&change.before, (const void *)call->addr, call->size);
	memcpy(&change.after, call->code, call->size);
	return sosc_change_code(image, change);
}

// Returns whether calls through the slot at @addr lead to a handler that only returns.
static bool is_silent(const struct sosc_loaded *image, uint64_t addr)
{
	uint64_t entry;

	if (addr < image->start || addr + sizeof(entry) > image->end || addr % sizeof(entry))
		return false;
	entry = *(const uint64_t *)addr - (uint64_t)sosc_entries;
	return entry < SOSC_MAX_SLOTS * SOSC_ENTRY_SIZE && !(entry % SOSC_ENTRY_SIZE) &&
	       sosc_cells[entry / SOSC_ENTRY_SIZE].handler == (uint64_t)sosc_prof_quiet;
}

// Returns the address of a relocation's slot. If the slot is not bound yet, the relocation makes
// the loader bind the cell instead.
static uint64_t slot_of(const struct sosc_loaded *image, const Elf64_Rela *rela)
{
	uint64_t addr = image->bias + rela->r_offset, cell = addr - (uint64_t)sosc_cells;

	return cell < sizeof(sosc_cells) ? sosc_layers[cell / sizeof(*sosc_cells)].addr : addr;
}

static uint32_t add(struct sosc_scanned *places, uint32_t count, uint64_t addr)
{
	for (uint32_t i = 0; i < count; i++)
		if (places[i].addr == addr)
			return count;
	if (count == SOSC_SILENT_SLOTS)
		return count;
	places[count] = (struct sosc_scanned){.addr = addr};
	return count + 1;
}

static uint32_t find_slots(struct sosc_silence *work, const struct sosc_loaded *image,
			   const Elf64_Rela *rela, uint64_t size, uint32_t count)
{
	for (uint64_t i = 0; i < size; i++) {
		uint32_t type = (uint32_t)ELF64_R_TYPE(rela[i].r_info);
		uint64_t addr = slot_of(image, &rela[i]);

		if ((type == SOSC_RELOCATION_GLOB_DAT || type == SOSC_RELOCATION_JUMP_SLOT) &&
		    is_silent(image, addr))
			count = add(work->slots, count, addr);
	}
	return count;
}

static void look_for(struct sosc_silence *work, const struct sosc_loaded *image,
		     struct sosc_scanned *places, uint32_t count, bool of_code)
{
	sosc_scan_end(&work->scan);
	work->scan = (struct sosc_scan){
		.image = image, .slots = places, .count = count, .of_code = of_code};
	work->done = 0;
	sosc_scan_sort(&work->scan);
}

static void begin(struct sosc_silence *work, const struct sosc_loaded *image)
{
	uint32_t count = find_slots(work, image, image->jmprel, image->jmprelcount, 0);

	count = find_slots(work, image, image->rela, image->relacount, count);
	look_for(work, image, work->slots, count, false);
}

static uint64_t site_at(const struct sosc_scan *scan, uint32_t number)
{
	return scan->image->start + scan->sites[number].offset;
}

static void find_stubs(struct sosc_silence *work, const struct sosc_loaded *image)
{
	for (uint32_t i = 1; i <= work->scan.used; i++) {
		uint64_t start = sosc_prof_stub_start(image, site_at(&work->scan, i));

		if (start)
			work->stub_count = add(work->stubs, work->stub_count, start);
	}
	look_for(work, image, work->stubs, work->stub_count, true);
}

// Replaces all calls that the scan has found. Returns false if the time @until has come first.
static bool change(struct sosc_silence *work, const struct sosc_hooking *of, uint64_t until)
{
	struct window window = {0};
	uint32_t seen = 0;
	bool in_time = true;

	while (work->done < work->scan.used && in_time) {
		uint64_t at = site_at(&work->scan, work->scan.used - work->done++);
		struct sosc_no_call call = sosc_prof_no_call(at, work->scan.of_code);

		if (call.size && sosc_is_instruction(of->image, call.addr) &&
		    note(of->image, &call) && !of->defers)
			put(&window, &call);
		in_time = ++seen % OFTEN ||
			  (!sosc_is_over(until) && (!of->defers || seen < DEFERRED_MOST));
	}
	flush(&window);
	return work->done == work->scan.used;
}

/**
 * Replace all calls in work->image of hooks that do nothing. Return false if the time @until has
 * come first.
 */
bool sosc_prof_silence(struct sosc_hooking *of, uint64_t until)
{
	struct sosc_silence *work = &of->silence;

	switch (work->stage) {
	case SILENCE_SLOTS:
		// there are none if calls are more than counted
		if (!sosc_prof || sosc_prof_given->mode > SOSC_PROF_COUNT ||
		    !sosc_has_frames(of->image))
			break;
		begin(work, of->image);
		work->stage = SILENCE_USES; // fall through
	case SILENCE_USES:
		if (!sosc_scan_text(&work->scan, until))
			return false;
		work->stage = SILENCE_CALLS_BY_SLOT; // fall through
	case SILENCE_CALLS_BY_SLOT:
		if (!change(work, of, until))
			return false;
		find_stubs(work, of->image);
		work->stage = SILENCE_STUBS; // fall through
	case SILENCE_STUBS:
		if (!sosc_scan_text(&work->scan, until))
			return false;
		work->stage = SILENCE_CALLS_BY_STUB; // fall through
	case SILENCE_CALLS_BY_STUB:
		if (!change(work, of, until))
			return false;
		break;
	default:
		return true;
	}
	sosc_scan_end(&work->scan);
	work->stage = SILENCE_DONE;
	return true;
}
