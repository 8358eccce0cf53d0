// SPDX-License-Identifier: Apache-2.0
// One slot: pointing it at an entry trampoline, and the cell behind that.

#include "slot.h"

struct sosc_hook sosc_hooks[SOSC_MAX_SLOTS];
struct sosc_lazy sosc_lazy[SOSC_MAX_SLOTS];

static uint32_t first_slot[SOSC_MAX_IMAGES], slot_count[SOSC_MAX_IMAGES];
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

static bool is_of(uint32_t index, const struct sosc_candidate *at)
{
	const char *strings = sosc_section(SOSC_SEC_STRINGS);

	return sosc_hooks[index].addr == at->addr &&
	       sosc_same(strings + sosc_hooks[index].symbol, at->symbol);
}

// The place of the same slot in an image that was closed and loaded again: most
// likely the one behind the last that was found.
static uint32_t known_slot(const struct sosc_candidate *at)
{
	struct sosc_loaded *image = at->image;

	for (uint32_t i = 0; i < image->slots_known; i++) {
		uint32_t next = image->slots_next < image->slots_known ? image->slots_next : 0;
		uint32_t index = first_slot[image->index] + next;

		image->slots_next = next + 1;
		if (is_of(index, at))
			return index;
	}
	return SOSC_NONE;
}

/** Begin with the slots of @image: those of its last time are known. */
void sosc_slots_begin(struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	image->slots_known = image->slots_next = 0;
	if (image->index == SOSC_NONE || !slot_count[image->index])
		return;
	image->slots_known = slot_count[image->index];
	images[image->index].slots_hooked = images[image->index].slots_refused = 0;
}

static uint32_t new_slot(struct sosc_loaded *image)
{
	uint32_t index = __atomic_fetch_add(&sosc_control->slots, 1, __ATOMIC_ACQ_REL);

	if (index >= SOSC_MAX_SLOTS - cells_taken) {
		__atomic_fetch_add(&sosc_control->slots_dropped, 1, __ATOMIC_RELAXED);
		return SOSC_NONE;
	}
	if (image->index != SOSC_NONE) {
		// a forked sibling may take an index in between: then the range
		// holds a few of its slots, which differ in their address
		if (!slot_count[image->index])
			first_slot[image->index] = index;
		slot_count[image->index] = index - first_slot[image->index] + 1;
	}
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
		index = new_slot(at->image);
	if (index == SOSC_NONE)
		return;
	sosc_hooks[index].addr = at->addr;
	sosc_hooks[index].symbol = symbol;
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
	__atomic_store_n((uint64_t *)at->addr, value, __ATOMIC_RELEASE);
	return true;
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
		index = new_slot(at->image);
	if (index == SOSC_NONE)
		return;
	cell = &sosc_cells[index];
	bind = &cell->original;
	original = original_of(at, &bind);
	if (!original) {
		sosc_slot_refuse(at, SOSC_REFUSED_FULL);
		return;
	}
	sosc_hooks[index].addr = at->addr;
	sosc_hooks[index].symbol = symbol;
	sosc_hooks[index].function = at->choice.function;
	sosc_hooks[index].relocation = at->lazy ? (uint64_t)at->rela : 0;
	sosc_hooks[index].image = at->image->index;
	sosc_hooks[index].ns = at->image->ns;
	if (known && cell->original != original)
		sosc_sites_retarget(cell, original);
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
	__atomic_store_n((uint64_t *)at->addr, original, __ATOMIC_RELEASE);
}
