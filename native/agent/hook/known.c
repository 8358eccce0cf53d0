// SPDX-License-Identifier: Apache-2.0
// Slots that were hooked before. An image that is closed and loaded again, and an image that an
// earlier session has hooked, find their cells by the addresses of the slots. A slot that still
// leads to a trampoline leads to the right one for ever.
//
// Followed forked children share the records, and each may load what the others load, as the
// workers of a prefork server all open the same plug-ins. The table of such slots is shared, too,
// so that a slot has one record, however many processes have it.

#include "hook/known.h"
#include "base/memory.h"
#include "call/cell.h"
#include "hook/slot.h"
#include "image/image.h"
#include "image/lookup.h"
#include "ring/record.h"
#include "thread/thread.h"

enum {
	PLACES = SOSC_SLOT_PLACES,
	PLACE_BITS = 20,
	BLOCK_BITS = 6, // slots that lie next to each other have entries next to each other
	STEP = (1 << BLOCK_BITS) + 1, // odd, so that it visits every entry
};

_Static_assert(PLACES == 1 << PLACE_BITS && PLACES >= 4 * SOSC_MAX_SLOTS, "wire.h");

static uint32_t places[PLACES]; // of this process: index + 1, 0 = free
static uint32_t spare; // an index that was taken in vain, because another process was faster
static uint32_t spare_of; // the process that has `spare`

static uint32_t key_of(const struct sosc_candidate *at, uint32_t instrument)
{
	return (sosc_gnu_hash(at->symbol) * 0x9e3779b1u ^ at->image->identity) + instrument;
}

static uint32_t place_of(uint64_t addr)
{
	const uint64_t in_block = (1 << BLOCK_BITS) - 1;
	uint64_t block = (addr >> (BLOCK_BITS + 3)) * HINT_FACTOR >> (64 - PLACE_BITS);

	return (uint32_t)((block & ~in_block) | (addr >> 3 & in_block));
}

static uint32_t next_place(uint32_t place)
{
	return (place + STEP) & (PLACES - 1);
}

static void enter(uint32_t index)
{
	uint32_t place = place_of(sosc_layers[index].addr);

	while (places[place])
		place = next_place(place);
	places[place] = index + 1;
}

static void make_known(const struct sosc_candidate *at, uint32_t instrument, uint32_t index)
{
	sosc_layers[index].addr = at->addr;
	sosc_layers[index].key = key_of(at, instrument);
	sosc_layers[index].instrument = (uint8_t)instrument;
	enter(index);
	if (index >= sosc_inside.cell_count)
		sosc_inside.cell_count = index + 1;
}

/** The session is over: give back the memory of the table. The layers have all that is in it. */
void sosc_known_rest(void)
{
	sosc_memory_clear(places, sizeof(places));
}

/** Another session begins: fill the table with the slots that were hooked before. */
void sosc_known_again(void)
{
	sosc_known_rest(); // the last session may have ended without a rest
	for (uint64_t i = 0; i < sosc_inside.cell_count; i++)
		if (sosc_layers[i].addr)
			enter((uint32_t)i);
}

static uint32_t find_own(const struct sosc_candidate *at, uint32_t instrument)
{
	uint32_t key = key_of(at, instrument), place = place_of(at->addr);

	for (; places[place]; place = next_place(place)) {
		const struct sosc_layer *layer = &sosc_layers[places[place] - 1];

		if (layer->addr == at->addr && layer->key == key && layer->instrument == instrument)
			return places[place] - 1;
	}
	return SOSC_NONE;
}

// ---- what processes share ----------------------------------------------------

// Returns whether the image's slots have to be in the shared table. Every child inherits the slots
// that were hooked before the first fork.
static bool is_shared(const struct sosc_loaded *image)
{
	const struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	return sosc_session->flags & SOSC_FLAG_FOLLOW && image->index != SOSC_NONE &&
	       !(images[image->index].flags & SOSC_IMAGE_STARTUP) &&
	       sosc_session->section[SOSC_SEC_PLACES].size;
}

static bool same_slot(const struct sosc_slot *slot, const struct sosc_candidate *at,
		      uint32_t instrument)
{
	return slot->addr == at->addr && slot->caller == at->caller->index &&
	       slot->instrument == instrument &&
	       sosc_same(sosc_string_at(slot->symbol), at->symbol);
}

// Returns the slot's index among all processes. If no process has entered it yet, enters @mine. If
// @mine is SOSC_NONE, only searches.
static uint32_t find_shared(const struct sosc_candidate *at, uint32_t instrument, uint32_t mine)
{
	uint32_t *shared = sosc_section(SOSC_SEC_PLACES), place = place_of(at->addr);

	for (uint32_t probe = 0; probe < PLACES; probe++, place = next_place(place)) {
		uint32_t there = __atomic_load_n(&shared[place], __ATOMIC_ACQUIRE);

		if (!there && mine == SOSC_NONE)
			break;
		if (!there && __atomic_compare_exchange_n(&shared[place], &there, mine + 1, false,
							  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			break;
		if (there - 1 < SOSC_MAX_SLOTS && same_slot(sosc_slot(there - 1), at, instrument))
			return there - 1;
	}
	return mine;
}

static uint32_t take_index(void)
{
	uint32_t index = spare;

	if (index && spare_of == sosc_process()) {
		spare = 0;
		return index;
	}
	return __atomic_fetch_add(&sosc_control->slots, 1, __ATOMIC_ACQ_REL);
}

/**
 * Return the index of a slot that was hooked by this process, or by a process that shares its
 * records. Return SOSC_NONE if there is none.
 */
uint32_t sosc_slot_known(const struct sosc_candidate *at, uint32_t instrument)
{
	uint32_t index = find_own(at, instrument);

	if (index != SOSC_NONE || !is_shared(at->image))
		return index;
	index = find_shared(at, instrument, SOSC_NONE);
	if (index == SOSC_NONE || !sosc_cell_is_free(index))
		return SOSC_NONE;
	make_known(at, instrument, index);
	return index;
}

/** Return an index for a new slot, SOSC_NONE = none is left. */
uint32_t sosc_slot_new(const struct sosc_candidate *at, uint32_t instrument, uint32_t symbol)
{
	uint32_t index = take_index(), first;
	struct sosc_slot *slot;

	if (!sosc_cell_is_free(index)) {
		__atomic_fetch_add(&sosc_control->slots_dropped, 1, __ATOMIC_RELAXED);
		return SOSC_NONE;
	}
	if (is_shared(at->image)) {
		slot = sosc_slot(index);
		slot->addr = at->addr;
		slot->caller = at->caller->index;
		slot->symbol = symbol;
		slot->instrument = (uint8_t)instrument;
		first = find_shared(at, instrument, index);
		if (first != index && sosc_cell_is_free(first)) {
			spare = index;
			spare_of = sosc_process();
			index = first;
		}
	}
	make_known(at, instrument, index);
	return index;
}
