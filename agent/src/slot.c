// SPDX-License-Identifier: Apache-2.0
// One slot: pointing it at an entry trampoline, and the cell behind that.

#include "slot.h"

struct sosc_hook sosc_hooks[SOSC_MAX_SLOTS];
struct sosc_lazy sosc_lazy[SOSC_MAX_SLOTS];

enum { PLACES = 1 << 18 };
static uint32_t places[PLACES]; // of slots by address: index + 1, 0 = none
static bool again; // a slot of an earlier session has been hooked again
static uint32_t cells_taken; // cells outside the slots, from the end down
static uint32_t free_cell; // list of those given back, by original

uint32_t sosc_cell_take(void)
{
	uint32_t index = free_cell;

	if (index) {
		free_cell = (uint32_t)sosc_cells[index].original;
		return index;
	}
	if (SOSC_MAX_SLOTS - cells_taken - 1 <= sosc_control->slots)
		return SOSC_NONE;
	return SOSC_MAX_SLOTS - ++cells_taken;
}

void sosc_cell_give(uint32_t index)
{
	sosc_cells[index].original = free_cell;
	free_cell = index;
}

// A cell outside the slots that belongs to a slot, the same one each time its
// image is loaded.
static uint32_t own_cell(uint64_t addr, uint32_t kind)
{
	static struct {
		uint64_t addr;
		uint32_t kind, cell;
	} owned[4096];
	uint32_t at = (uint32_t)((addr ^ kind) * HINT_FACTOR >> 52), probe;

	for (probe = 0; probe < 64; probe++, at = (at + 1) & 4095) {
		if (owned[at].addr == addr && owned[at].kind == kind)
			return owned[at].cell;
		if (!owned[at].addr) {
			uint32_t cell = sosc_cell_take();

			if (cell == SOSC_NONE)
				return SOSC_NONE;
			owned[at].addr = addr;
			owned[at].kind = kind;
			owned[at].cell = cell;
			return cell;
		}
	}
	return sosc_cell_take();
}

// ---- one slot --------------------------------------------------------------

static uint64_t handler_of(const struct sosc_choice *choice, bool entry_only)
{
	bool program = choice->function->flags & SOSC_FN_PROGRAM;
	bool six = choice->function->flags & SOSC_FN_SIX;

	switch (sosc_control->mode) {
	case SOSC_MODE_COUNT:
		return (uint64_t)sosc_h_count;
	case SOSC_MODE_STATS:
		return (uint64_t)(entry_only ? sosc_h_stats_entry : sosc_h_stats);
	default:
		break;
	}
	if (choice->function->flags & SOSC_FN_EXIT_PROGRAM && choice->function->exit_words)
		program = true;
	if (program)
		return (uint64_t)sosc_h_program;
	if (entry_only)
		return (uint64_t)(six ? sosc_h_entry_six : sosc_h_entry);
	return (uint64_t)(six ? sosc_h_call_six : sosc_h_call);
}

static uint32_t key_of(const struct sosc_candidate *at)
{
	return sosc_gnu_hash(at->symbol) * 0x9e3779b1u ^ at->image->identity;
}

static uint32_t place_of(uint64_t addr)
{
	return (uint32_t)(addr * HINT_FACTOR >> 46);
}

// The index of the same slot in an image that was closed and loaded again, or in an
// earlier session: what still leads to its trampoline is right for ever.
static uint32_t known_slot(const struct sosc_candidate *at)
{
	uint32_t key = key_of(at), place = place_of(at->addr);

	for (; places[place]; place = (place + 1) & (PLACES - 1)) {
		const struct sosc_hook *hook = &sosc_hooks[places[place] - 1];

		if (hook->addr == at->addr && hook->key == key)
			return places[place] - 1;
	}
	return SOSC_NONE;
}

static void make_known(const struct sosc_candidate *at, uint32_t index)
{
	uint32_t place = place_of(at->addr);

	sosc_hooks[index].addr = at->addr;
	sosc_hooks[index].key = key_of(at);
	while (places[place])
		place = (place + 1) & (PLACES - 1);
	places[place] = index + 1;
}

/** Begin with the slots of @image, which may have been here before. */
void sosc_slots_begin(struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	if (image->index != SOSC_NONE)
		images[image->index].slots_hooked = images[image->index].slots_refused = 0;
}

/** No more slots are hooked for now. */
void sosc_slots_end(void)
{
	if (again)
		sosc_sites_refresh();
	again = false;
}

static uint32_t new_slot(const struct sosc_candidate *at)
{
	uint32_t index = __atomic_fetch_add(&sosc_control->slots, 1, __ATOMIC_ACQ_REL);

	if (index >= SOSC_MAX_SLOTS - cells_taken) {
		__atomic_fetch_add(&sosc_control->slots_dropped, 1, __ATOMIC_RELAXED);
		return SOSC_NONE;
	}
	if (index >= sosc_inside.cell_count)
		sosc_inside.cell_count = index + 1;
	make_known(at, index);
	return index;
}

static struct sosc_slot *write_record(const struct sosc_candidate *at, uint32_t index,
				      uint32_t symbol, enum sosc_slot_refusal refusal)
{
	struct sosc_slot *slot = sosc_slot(index);
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	slot->symbol = symbol;
	slot->version = at->version ? sosc_string(at->version) : 0;
	slot->caller = at->image->index;
	slot->callee = at->callee ? at->callee->index : SOSC_NONE;
	slot->addr = at->addr;
	slot->saved = at->value;
	slot->original = at->value;
	slot->prototype = at->choice.function->prototype;
	slot->kind = (uint8_t)at->kind;
	slot->refusal = (uint8_t)refusal;
	slot->flags = at->lazy ? SOSC_SLOT_LAZY : 0;
	slot->error_rule = at->choice.function->error_rule;
	slot->function_flags = at->choice.flags;
	slot->tsc = sosc_rdtsc();
	if (at->image->index != SOSC_NONE) {
		if (refusal)
			images[at->image->index].slots_refused++;
		else
			images[at->image->index].slots_hooked++;
	}
	return slot;
}

void sosc_slot_refuse(const struct sosc_candidate *at, enum sosc_slot_refusal refusal)
{
	uint32_t index = known_slot(at), symbol = sosc_string(at->symbol);

	if (index == SOSC_NONE)
		index = new_slot(at);
	if (index == SOSC_NONE)
		return;
	__atomic_store_n(&write_record(at, index, symbol, refusal)->ready, 1, __ATOMIC_RELEASE);
}

// Leaves the GLOB_DAT as it is: only those that call through it get our value.
static bool reaim(const struct sosc_candidate *at, uint64_t value)
{
	uint64_t shadow = sosc_shadow_cell(at->image, at->addr);

	if (!shadow)
		return false;
	*(uint64_t *)shadow = value;
	return sosc_scan_sites(at->scan, at->uses, shadow) > 0;
}

static bool store_slot(const struct sosc_candidate *at, uint64_t value)
{
	if (at->kind == SOSC_SLOT_PLT_GOT || at->kind == SOSC_SLOT_CALL_SITES) {
		if (reaim(at, value))
			return true;
		sosc_control->agent_flags |= SOSC_AGENT_TEXT_REFUSED;
		return false;
	}
	return sosc_change_word(at->image, at->addr, value);
}

enum { RESOLVE_CELL = 1, GUARD_CELL = 2, ALIAS_CELL = 3 };

// In a program that is not position independent a function's address may be the
// program's own stub: what the symbol of the stub's slot has for a value, although
// it is undefined.
enum { CANONICAL_MAX = 16384 };
static struct {
	uint64_t addr;
	uint32_t slot;
} canonical[CANONICAL_MAX];
static uint32_t canonical_count;

static void note_canonical(const struct sosc_candidate *at, uint32_t index)
{
	const Elf64_Sym *symbol = &at->image->symtab[ELF64_R_SYM(at->rela->r_info)];

	if (at->image != &sosc_loaded[0] || at->kind != SOSC_SLOT_JUMP_SLOT || !symbol->st_value ||
	    symbol->st_shndx != SHN_UNDEF || canonical_count == CANONICAL_MAX)
		return;
	canonical[canonical_count].addr = at->image->bias + symbol->st_value;
	canonical[canonical_count++].slot = index;
}

/**
 * Other slots hold such a stub: calls through them would be counted twice. A way
 * round, if @value is one and its slot is hooked, else 0.
 */
uint64_t sosc_past_canonical(uint64_t value)
{
	for (uint32_t i = 0; i < canonical_count; i++) {
		uint32_t slot = canonical[i].slot, alias;

		if (canonical[i].addr != value || sosc_slot(slot)->refusal)
			continue;
		alias = own_cell(sosc_hooks[slot].addr, ALIAS_CELL);
		if (alias == SOSC_NONE)
			return 0;
		sosc_cells[alias].original = (uint64_t)&sosc_cells[slot];
		sosc_cells[alias].handler = (uint64_t)sosc_h_alias;
		return sosc_entry_of(alias);
	}
	return 0;
}

// Where a hook's calls go at first, and the cell that the loader is to bind. A
// guard stands behind the hook of a function that may forbid rdtsc or system
// calls: it sees the call before it is made.
static uint64_t original_of(const struct sosc_candidate *at, uint64_t **bind)
{
	uint64_t original = at->value;
	uint32_t guarded = sosc_guard_kind(at->symbol);

	if (at->lazy == LAZY_REGISTER) {
		uint32_t resolve = own_cell(at->addr, RESOLVE_CELL);

		if (resolve == SOSC_NONE)
			return 0;
		sosc_lazy[resolve].index = at->index;
		sosc_lazy[resolve].got = (uint64_t)at->image->pltgot;
		sosc_cells[resolve].handler = (uint64_t)sosc_h_resolve;
		original = sosc_entry_of(resolve);
	}
	if (guarded) {
		uint32_t guard = own_cell(at->addr, GUARD_CELL);

		if (guard == SOSC_NONE)
			return original;
		sosc_lazy[guard].index = guarded;
		sosc_cells[guard].original = original;
		sosc_cells[guard].handler = (uint64_t)sosc_h_guard;
		*bind = &sosc_cells[guard].original;
		original = sosc_entry_of(guard);
	}
	return original;
}

void sosc_slot_hook(const struct sosc_candidate *at)
{
	uint32_t symbol = sosc_string(at->symbol), index = known_slot(at);
	bool entry_only = at->choice.flags & SOSC_FN_ENTRY_ONLY ||
			  sosc_control->flags & SOSC_FLAG_ENTRY_ONLY;
	bool known = index != SOSC_NONE;
	struct sosc_cell *cell;
	struct sosc_slot *slot;
	uint64_t *bind, original;

	if (!known)
		index = new_slot(at);
	if (index == SOSC_NONE)
		return;
	cell = &sosc_cells[index];
	bind = &cell->original;
	original = original_of(at, &bind);
	if (!original) {
		sosc_slot_refuse(at, SOSC_REFUSED_FULL);
		return;
	}
	sosc_hooks[index].function = at->choice.function;
	sosc_hooks[index].ns = at->image->ns;
	if (known && sosc_hooks[index].session != sosc_inside.sessions)
		again = true;
	else if (known && cell->original != original)
		sosc_sites_retarget(cell, original);
	sosc_hooks[index].session = sosc_inside.sessions;
	cell->original = original;
	__atomic_store_n(&cell->handler,
			 sosc_quiet ? (uint64_t)sosc_h_jump : handler_of(&at->choice, entry_only),
			 __ATOMIC_RELEASE);
	slot = write_record(at, index, symbol, SOSC_HOOKED);
	if (entry_only)
		slot->flags |= SOSC_SLOT_ENTRY_ONLY;
	if (at->lazy && !sosc_redirect_binding(at, (uint64_t)bind))
		slot->refusal = SOSC_REFUSED_WRITE;
	else if (!store_slot(at, sosc_entry_of(index)))
		slot->refusal = at->kind >= SOSC_SLOT_PLT_GOT ? SOSC_REFUSED_TEXT :
								SOSC_REFUSED_WRITE;
	note_canonical(at, index);
	__atomic_store_n(&slot->ready, 1, __ATOMIC_RELEASE);
}

// A guard without a hook in front of it.
void sosc_slot_guard(const struct sosc_candidate *at)
{
	uint64_t original, *bind = NULL;

	original = original_of(at, &bind);
	if (!bind || (at->lazy && !sosc_redirect_binding(at, (uint64_t)bind)))
		return;
	(void)sosc_change_word(at->image, at->addr, original);
}

/** Another session: nothing is hooked; slots that come again keep their cells. */
void sosc_slots_again(void)
{
	canonical_count = 0;
	sosc_control->slots = (uint32_t)sosc_inside.cell_count;
}
