// SPDX-License-Identifier: Apache-2.0
// Hooking one slot: leading it to an entry trampoline, and setting up the trampoline's cell.

#include "hook/slot.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "call/cell.h"
#include "call/counter.h"
#include "call/handler.h"
#include "call/site.h"
#include "hook/guard.h"
#include "hook/known.h"
#include "hook/lazy.h"
#include "hook/scan.h"
#include "hook/shadow.h"
#include "image/changes.h"
#include "image/image.h"
#include "image/lookup.h"
#include "ring/record.h"
#include "thread/thread.h"

static bool again; // a slot was hooked that an earlier session had hooked

/** Begin with the slots of @image, which may have been hooked before. */
void sosc_slots_begin(struct sosc_loaded *image)
{
	image->slots_hooked = image->slots_left = image->slots_refused = 0;
}

// Stores the counts of an image. Processes that share the record have the same slots, so each
// stores its own counts.
static void store_counts(const struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	if (image->index == SOSC_NONE)
		return;
	images[image->index].slots_hooked = image->slots_hooked;
	images[image->index].slots_refused = image->slots_refused;
}

// Counts a slot that is not hooked. It has no record if there is no room for one.
static void count_refused(struct sosc_loaded *image)
{
	image->slots_refused++;
	store_counts(image);
}

/** No more slots are hooked for now. */
void sosc_slots_end(void)
{
	if (again)
		sosc_sites_refresh();
	again = false;
}

// Stores a name unless the record has it already: other processes, or other loads of the same
// image, have the same names.
static uint32_t name_of(uint32_t stored, const char *text)
{
	return stored && sosc_same(sosc_string_at(stored), text) ? stored : sosc_string(text);
}

// A slot for one of the instruments that have chosen it.
struct sosc_place {
	const struct sosc_chosen *chosen;
	uint32_t instrument;
	uint32_t index; // index of cell and record, SOSC_NONE = none is left
	uint32_t symbol; // name in SEC_STRINGS
	bool known;
};

static struct sosc_place place_for(const struct sosc_candidate *at,
				   const struct sosc_chosen *chosen)
{
	struct sosc_place place = {.chosen = chosen,
				   .instrument = sosc_session->plan[chosen->plan].instrument};

	place.index = sosc_slot_known(at, place.instrument);
	place.known = place.index != SOSC_NONE;
	place.symbol = name_of(place.known ? sosc_slot(place.index)->symbol : 0, at->symbol);
	if (!place.known)
		place.index = sosc_slot_new(at, place.instrument, place.symbol);
	return place;
}

static struct sosc_slot *write_record(const struct sosc_candidate *at,
				      const struct sosc_place *place,
				      enum sosc_slot_refusal refusal)
{
	struct sosc_slot *slot = sosc_slot(place->index);
	const struct sosc_function *function = place->chosen->function;

	slot->symbol = place->symbol;
	slot->version = at->version ? name_of(slot->version, at->version) : 0;
	slot->caller = at->caller->index;
	slot->callee = at->callee ? at->callee->index : SOSC_NONE;
	slot->addr = at->addr;
	slot->saved = at->value;
	slot->original = at->value;
	slot->prototype = function->prototype;
	slot->kind = (uint8_t)at->kind;
	slot->refusal = (uint8_t)refusal;
	slot->flags = at->lazy ? SOSC_SLOT_LAZY : 0;
	slot->error_rule = function->error_rule;
	slot->function_flags = place->chosen->flags;
	slot->instrument = (uint8_t)place->instrument;
	slot->tsc = sosc_ticks();
	return slot;
}

static void record_refusal(const struct sosc_candidate *at, const struct sosc_chosen *chosen,
			   enum sosc_slot_refusal refusal)
{
	struct sosc_place place = place_for(at, chosen);

	if (place.index == SOSC_NONE)
		return;
	__atomic_store_n(&write_record(at, &place, refusal)->ready, 1, __ATOMIC_RELEASE);
}

void sosc_slot_refuse(struct sosc_candidate *at, enum sosc_slot_refusal refusal)
{
	count_refused(at->caller);
	for (uint32_t i = 0; i < at->choice.count; i++)
		record_refusal(at, &at->choice.of[i], refusal);
}

/** Return whether an instrument remains that may hook the function. */
bool sosc_slot_is_wanted(struct sosc_candidate *at)
{
	struct sosc_choice *choice = &at->choice;
	uint32_t count = 0;

	for (uint32_t i = 0; i < choice->count; i++)
		if (!(choice->of[i].flags & SOSC_FN_NEVER))
			count++;
	if (!count) {
		sosc_slot_refuse(at, SOSC_REFUSED_NOT_A_CALL);
		return false;
	}
	count = 0;
	for (uint32_t i = 0; i < choice->count; i++)
		if (choice->of[i].flags & SOSC_FN_NEVER)
			record_refusal(at, &choice->of[i], SOSC_REFUSED_NOT_A_CALL);
		else
			choice->of[count++] = choice->of[i];
	choice->count = count;
	return true;
}

static bool is_entry_only(const struct sosc_chosen *chosen)
{
	return chosen->flags & SOSC_FN_ENTRY_ONLY ||
	       sosc_session->plan[chosen->plan].flags & SOSC_PLAN_ENTRY_ONLY;
}

// Leaves the GLOB_DAT slot as it is: only code that calls through it gets the new value.
static bool reaim(const struct sosc_candidate *at, uint64_t value)
{
	uint64_t shadow = sosc_shadow_cell(at->image, at->addr);

	if (!shadow)
		return false;
	*(uint64_t *)shadow = value;
	return sosc_scan_sites(at->scan, at->uses, shadow) > 0;
}

static bool is_in_code(const struct sosc_candidate *at)
{
	return at->kind == SOSC_SLOT_PLT_GOT || at->kind == SOSC_SLOT_CALL_SITES;
}

static bool store_slot(const struct sosc_candidate *at, uint64_t value)
{
	if (is_in_code(at))
		return reaim(at, value);
	return sosc_change_word(at->image, at->addr, value);
}

// In a program that is not position independent, the address of a function may be the program's own
// stub (a canonical PLT entry). Then the symbol of the stub's slot is undefined, and yet its value
// is the stub's address.
enum { CANONICAL_MAX = 16384 };
static struct {
	uint64_t addr;
	uint32_t slot;
} canonical[CANONICAL_MAX];
static uint32_t canonical_count;

static void note_canonical(const struct sosc_candidate *at, uint32_t index)
{
	const Elf64_Sym *symbol;

	if (at->image != &sosc_loaded[0] || at->kind != SOSC_SLOT_JUMP_SLOT)
		return;
	symbol = &at->image->symtab[ELF64_R_SYM(at->rela->r_info)];
	if (!symbol->st_value || symbol->st_shndx != SHN_UNDEF || canonical_count == CANONICAL_MAX)
		return;
	canonical[canonical_count].addr = at->image->bias + symbol->st_value;
	canonical[canonical_count++].slot = index;
}

/**
 * Return an address that bypasses such a stub, if @value is one and its slot is hooked, else 0.
 * Other slots may hold the stub's address, and calls through them would be counted twice.
 */
uint64_t sosc_past_canonical(uint64_t value)
{
	for (uint32_t i = 0; i < canonical_count; i++) {
		uint32_t slot = canonical[i].slot, alias;

		if (canonical[i].addr != value || sosc_slot(slot)->refusal)
			continue;
		alias = sosc_cell_of(sosc_layers[slot].addr, ALIAS_CELL);
		if (alias == SOSC_NONE)
			return 0;
		sosc_cells[alias].original = (uint64_t)&sosc_cells[slot];
		sosc_cells[alias].handler = (uint64_t)sosc_h_alias;
		return sosc_entry_of(alias);
	}
	return 0;
}

// Returns where calls go after the hook, and sets @bind to the cell where the loader stores the
// address. A guard comes after the hook, so it sees the call last.
static uint64_t original_of(const struct sosc_candidate *at, uint64_t **bind)
{
	uint64_t original = at->value;
	uint32_t guarded = sosc_guard_kind(at);

	if (at->lazy == LAZY_REGISTER) {
		uint32_t resolve = sosc_cell_of(at->addr, RESOLVE_CELL);

		if (resolve == SOSC_NONE)
			return 0;
		sosc_lazy[resolve].index = at->index;
		sosc_lazy[resolve].got = (uint64_t)at->image->pltgot;
		sosc_cells[resolve].handler = (uint64_t)sosc_h_resolve;
		original = sosc_entry_of(resolve);
	}
	if (guarded) {
		uint32_t guard = sosc_cell_of(at->addr, GUARD_CELL);

		if (guard == SOSC_NONE)
			return original;
		sosc_lazy[guard].index = guarded;
		sosc_cells[guard].original = original;
		sosc_cells[guard].handler = sosc_guard_handler(guarded);
		sosc_layers[guard].session = sosc_inside.sessions;
		sosc_layers[guard].instrument = SOSC_INSTRUMENT_GUARD;
		sosc_layers[guard].ns = (uint8_t)at->image->ns;
		*bind = &sosc_cells[guard].original;
		original = sosc_entry_of(guard);
	}
	return original;
}

static uint64_t handler_of(const struct sosc_chosen *chosen, bool entry_only)
{
	const struct sosc_instrument *instrument =
		&sosc_instruments[sosc_session->plan[chosen->plan].instrument];

	return instrument->handler ? instrument->handler(chosen, entry_only) :
				     (uint64_t)sosc_h_layer;
}

// Sets up the cell of one instrument, whose calls go on to @original. Returns the address that
// leads to the cell.
static uint64_t set_cell(const struct sosc_candidate *at, const struct sosc_place *place,
			 uint64_t original)
{
	struct sosc_cell *cell = &sosc_cells[place->index];
	struct sosc_layer *layer = &sosc_layers[place->index];
	uint64_t handler = (uint64_t)sosc_h_jump;

	layer->function = place->chosen->function;
	layer->ns = (uint8_t)at->image->ns;
	layer->of_libc = sosc_is_of_libc(at->version, at->callee);
	if (place->known && layer->session != sosc_inside.sessions)
		again = true;
	else if (place->known && cell->original != original)
		sosc_sites_retarget(cell, original);
	layer->session = sosc_inside.sessions;
	cell->original = original;
	if (!sosc_quiet && sosc_instruments[place->instrument].hooked)
		handler = sosc_instruments[place->instrument].hooked(at, place->index);
	else if (!sosc_quiet)
		handler = handler_of(place->chosen, is_entry_only(place->chosen));
	__atomic_store_n(&cell->handler, handler, __ATOMIC_RELEASE);
	if (handler == sosc_instruments[place->instrument].counted)
		return sosc_counter_entry(place->index);
	return sosc_entry_of(place->index);
}

static enum sosc_slot_refusal aim(const struct sosc_candidate *at, uint64_t *bind, uint64_t value)
{
	if (at->lazy && !sosc_redirect_binding(at, (uint64_t)bind))
		return SOSC_REFUSED_WRITE;
	if (store_slot(at, value))
		return SOSC_HOOKED;
	if (!is_in_code(at))
		return SOSC_REFUSED_WRITE;
	sosc_control->agent_flags |= SOSC_AGENT_TEXT_REFUSED;
	return SOSC_REFUSED_TEXT;
}

// Completes the record when it is known whether the slot could be hooked.
static void finish_record(const struct sosc_candidate *at, const struct sosc_place *place,
			  enum sosc_slot_refusal refusal)
{
	struct sosc_slot *slot = sosc_slot(place->index);

	slot->refusal = (uint8_t)refusal;
	if (is_entry_only(place->chosen))
		slot->flags |= SOSC_SLOT_ENTRY_ONLY;
	if (is_in_code(at) && at->uses->uses & (SOSC_USE_LOAD | SOSC_USE_LEFT))
		slot->flags |= SOSC_SLOT_PARTIAL;
	__atomic_store_n(&slot->ready, 1, __ATOMIC_RELEASE);
}

// Returns the entry trampoline that is shared by all words that hold the function's address, so
// that two of them still compare equal. It does the same as the trampoline of @place.
static uint64_t shared_entry(const struct sosc_candidate *at, const struct sosc_place *place)
{
	uint32_t cell = sosc_cell_of(at->value, SHARED_CELL);

	if (cell == SOSC_NONE)
		return at->value;
	sosc_cells[cell].original = at->value;
	sosc_layers[cell].session = sosc_inside.sessions;
	sosc_layers[cell].instrument = (uint8_t)place->instrument;
	sosc_layers[cell].ns = (uint8_t)at->image->ns;
	__atomic_store_n(&sosc_cells[cell].handler, sosc_cells[place->index].handler,
			 __ATOMIC_RELEASE);
	return sosc_entry_of(cell);
}

/** Lead the slot's calls through the cells of all instruments that have chosen it. */
void sosc_slot_hook(struct sosc_candidate *at)
{
	struct sosc_place places[SOSC_PLANS];
	uint32_t count = 0;
	uint64_t *bind = NULL, next;
	enum sosc_slot_refusal refusal;

	for (uint32_t i = 0; i < at->choice.count; i++) {
		places[count] = place_for(at, &at->choice.of[i]);
		count += places[count].index != SOSC_NONE;
	}
	if (!count) {
		count_refused(at->caller);
		return;
	}
	next = original_of(at, &bind);
	if (!next) {
		sosc_slot_refuse(at, SOSC_REFUSED_FULL);
		return;
	}
	if (!bind)
		bind = &sosc_cells[places[count - 1].index].original;
	for (uint32_t i = count; i-- > 0;)
		next = set_cell(at, &places[i], next);
	for (uint32_t i = 0; i < count; i++)
		(void)write_record(at, &places[i], SOSC_HOOKED);
	if (at->shared)
		next = shared_entry(at, &places[0]);
	refusal = aim(at, bind, next);
	note_canonical(at, places[count - 1].index);
	if (refusal)
		at->caller->slots_refused++;
	else
		at->caller->slots_hooked++;
	store_counts(at->caller);
	for (uint32_t i = 0; i < count; i++)
		finish_record(at, &places[i], refusal);
}

// Sets up a guard without a hook before it.
void sosc_slot_guard(const struct sosc_candidate *at)
{
	uint64_t original, *bind = NULL;

	original = original_of(at, &bind);
	if (!bind || (at->lazy && !sosc_redirect_binding(at, (uint64_t)bind)))
		return;
	(void)store_slot(at, original);
}

/** Another session begins with nothing hooked. Slots that are hooked again keep their cells. */
void sosc_slots_again(void)
{
	canonical_count = 0;
	sosc_control->slots = (uint32_t)sosc_inside.cell_count;
}
