// SPDX-License-Identifier: Apache-2.0
// An image's relocations: which of them fill slots, which slots are chosen, and how each is hooked.

#include "hook/relocation.h"
#include "base/arch.h"
#include "base/instrument.h"
#include "base/sys.h"
#include "hook/guard.h"
#include "hook/hook.h"
#include "hook/lazy.h"
#include "hook/patch.h"
#include "hook/scan.h"
#include "hook/select.h"
#include "hook/slot.h"
#include "image/changes.h"
#include "image/image.h"
#include "image/lookup.h"

static void leave(struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);
	uint32_t count = ++image->slots_left;

	if (image->index != SOSC_NONE && images[image->index].slots_left >= count)
		return; // counted already, at an earlier load or by another process
	__atomic_fetch_add(&sosc_control->slots_left, 1, __ATOMIC_RELAXED);
	if (image->index != SOSC_NONE)
		images[image->index].slots_left = count;
}

static bool describe(struct sosc_candidate *at, struct sosc_loaded *image, const Elf64_Rela *rela)
{
	uint32_t symbol = (uint32_t)ELF64_R_SYM(rela->r_info);
	struct sosc_loaded *callee;

	memset(at, 0, sizeof(*at));
	at->image = image;
	at->caller = image;
	at->rela = rela;
	at->addr = image->bias + rela->r_offset;
	at->symbol = sosc_symbol_name(image, symbol);
	at->version = sosc_symbol_version(image, symbol);
	if (at->addr < image->start || at->addr + 8 > image->end || at->addr % 8)
		return false;
	at->value = *(const uint64_t *)at->addr;
	callee = sosc_image_of(at->value);
	at->callee = callee;
	return at->value && *at->symbol;
}

// The same as `describe`, for a slot whose address may be a stub of the program.
static bool describe_data(struct sosc_candidate *at, struct sosc_loaded *image,
			  const Elf64_Rela *rela)
{
	struct sosc_loaded *program = &sosc_loaded[0], *provider;

	if (!describe(at, image, rela))
		return false;
	if (at->callee == program && !program->bias &&
	    sosc_lookup_all(image->ns, at->symbol, at->version, &provider))
		at->callee = provider;
	return true;
}

/** Hook relocation @i of DT_JMPREL, if an instrument has chosen it. */
void sosc_hook_jump_slot(struct sosc_hooking *work, uint64_t i)
{
	struct sosc_loaded *image = work->image;
	struct sosc_candidate at;
	enum sosc_patched patched;
	uint64_t past;

	if (ELF64_R_TYPE(image->jmprel[i].r_info) != SOSC_RELOCATION_JUMP_SLOT ||
	    !describe(&at, image, &image->jmprel[i]))
		return;
	at.kind = SOSC_SLOT_JUMP_SLOT;
	at.index = i;
	patched = sosc_patch_slot(&at, true);
	if (work->only_patches)
		return;
	at.lazy = patched == SOSC_PATCHED ? BOUND : sosc_lazy_way(image, at.value, i);
	past = at.lazy ? 0 : sosc_past_canonical(at.value);
	if (past)
		at.value = past;
	if (at.lazy || past || !at.callee)
		(void)sosc_lookup_all(image->ns, at.symbol, at.version, &at.callee);
	if (!sosc_select_slot(at.symbol, at.version, at.callee, &at.choice)) {
		leave(image);
		if (past)
			(void)sosc_change_word(image, at.addr, past);
		if (sosc_guard_kind(&at)) {
			work->lazy |= at.lazy != BOUND;
			sosc_slot_guard(&at);
		}
	} else if (sosc_slot_is_wanted(&at)) {
		work->lazy |= at.lazy != BOUND;
		sosc_slot_hook(&at);
	}
}

static bool in_jmprel(const struct sosc_loaded *image, const Elf64_Rela *rela)
{
	return image->jmprel && rela >= image->jmprel && rela < image->jmprel + image->jmprelcount;
}

// Returns whether the only instrument that has chosen the function also wants calls through
// pointers.
static bool wants_address(const struct sosc_candidate *at)
{
	const struct sosc_choice *choice = &at->choice;

	return choice->count == 1 &&
	       sosc_instruments[sosc_session->plan[choice->of[0].plan].instrument].addresses;
}

static bool is_absolute(const Elf64_Rela *rela)
{
	return ELF64_R_TYPE(rela->r_info) == SOSC_RELOCATION_ABSOLUTE && !rela->r_addend;
}

// Returns whether this is a word of data that holds the address of another image's function, and an
// instrument wants it.
static bool wanted_address(struct sosc_candidate *at, struct sosc_loaded *image,
			   const Elf64_Rela *rela)
{
	const Elf64_Sym *symbol = &image->symtab[ELF64_R_SYM(rela->r_info)];

	return is_absolute(rela) && ELF64_R_SYM(rela->r_info) &&
	       ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT &&
	       ELF64_ST_TYPE(symbol->st_info) != STT_TLS && describe_data(at, image, rela) &&
	       at->callee && sosc_addr_executable(sosc_image_of(at->value), at->value) &&
	       sosc_select_slot(at->symbol, at->version, at->callee, &at->choice) &&
	       wants_address(at);
}

// Returns whether this is a GLOB_DAT slot that leads to a function and is to be hooked, possibly
// only for a guard.
static bool wanted_glob_dat(struct sosc_candidate *at, struct sosc_loaded *image,
			    const Elf64_Rela *rela, bool only_patches)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
	uint32_t symbol = (uint32_t)ELF64_R_SYM(rela->r_info), kind;
	bool may_be_left;

	if ((type != SOSC_RELOCATION_GLOB_DAT && type != SOSC_RELOCATION_JUMP_SLOT) ||
	    in_jmprel(image, rela))
		return false;
	kind = ELF64_ST_TYPE(image->symtab[symbol].st_info);
	if (kind == STT_OBJECT || kind == STT_TLS || !describe_data(at, image, rela))
		return false;
	if (!at->callee || !sosc_addr_executable(sosc_image_of(at->value), at->value))
		return false;
	at->kind = type == SOSC_RELOCATION_JUMP_SLOT ? SOSC_SLOT_JUMP_SLOT : SOSC_SLOT_GLOB_DAT;
	if (sosc_patch_is_about(at))
		return true;
	// a patch that was replaced may have changed it
	may_be_left = sosc_patch_is_library(at->callee);
	if (only_patches)
		return may_be_left;
	if (sosc_select_slot(at->symbol, at->version, at->callee, &at->choice))
		return true;
	leave(image);
	return may_be_left || sosc_guard_kind(at);
}

// Decides where calls can be told apart from other uses of the address. Returns false if there is
// no such place.
static bool find_kind(struct sosc_candidate *at)
{
	uint32_t uses = at->uses->uses;

	if (at->kind == SOSC_SLOT_JUMP_SLOT)
		return true;
	if (uses && !(uses & (SOSC_USE_LOAD | SOSC_USE_CALLED_LOAD)))
		return true;
	if (uses & SOSC_USE_STUB)
		at->kind = SOSC_SLOT_PLT_GOT;
	else
		at->kind = SOSC_SLOT_CALL_SITES;
	return uses & (SOSC_USE_STUB | SOSC_USE_CALL | SOSC_USE_JUMP | SOSC_USE_CALLED_LOAD);
}

// The same for a patch, which changes no code.
static void patch_data_slot(struct sosc_candidate *at)
{
	enum sosc_slot_kind kind = at->kind;

	(void)sosc_patch_slot(at, find_kind(at) && at->kind == kind);
	at->kind = kind;
}

static void hook_glob_dat(struct sosc_candidate *at)
{
	uint64_t past = sosc_past_canonical(at->value);

	if (past)
		at->value = past;
	if (!sosc_slot_is_wanted(at))
		return;
	at->shared = !past && at->kind == SOSC_SLOT_GLOB_DAT && wants_address(at) &&
		     (!at->uses->uses || at->uses->uses & SOSC_USE_LOAD);
	if (at->shared || find_kind(at)) {
		sosc_slot_hook(at);
	} else {
		at->kind = SOSC_SLOT_GLOB_DAT;
		sosc_slot_refuse(at, SOSC_REFUSED_ADDRESS_TAKEN);
	}
}

/** Collect in work->scan the slots outside of DT_JMPREL that are to be hooked. */
void sosc_find_data_slots(struct sosc_hooking *work)
{
	struct sosc_loaded *image = work->image;
	struct sosc_scan *scan = &work->scan;
	struct sosc_candidate at;
	uint32_t wanted = 0;

	for (uint64_t i = 0; i < image->relacount; i++)
		wanted += ELF64_R_TYPE(image->rela[i].r_info) == SOSC_RELOCATION_GLOB_DAT ||
			  ELF64_R_TYPE(image->rela[i].r_info) == SOSC_RELOCATION_JUMP_SLOT ||
			  is_absolute(&image->rela[i]);
	if (!wanted)
		return;
	work->size = (uint64_t)wanted * sizeof(*scan->slots);
	scan->slots = sosc_mmap(NULL, work->size, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sosc_mmap_failed(scan->slots)) {
		work->size = 0;
		return;
	}
	for (uint64_t i = 0; i < image->relacount; i++)
		if (wanted_glob_dat(&at, image, &image->rela[i], work->only_patches) ||
		    (!work->only_patches && wanted_address(&at, image, &image->rela[i]))) {
			scan->slots[scan->count].addr = at.addr;
			scan->slots[scan->count++].relocation = (uint32_t)i;
		}
	sosc_scan_sort(scan);
}

/** Hook slot @i of work->scan, after it is known how code uses it. */
void sosc_hook_data_slot(struct sosc_hooking *work, uint64_t i)
{
	struct sosc_scanned *slot = &work->scan.slots[i];
	struct sosc_candidate at;

	if (!describe_data(&at, work->image, &work->image->rela[slot->relocation]))
		return;
	at.kind = ELF64_R_TYPE(at.rela->r_info) == SOSC_RELOCATION_JUMP_SLOT ? SOSC_SLOT_JUMP_SLOT :
									       SOSC_SLOT_GLOB_DAT;
	at.scan = &work->scan;
	at.uses = slot;
	if (!is_absolute(at.rela))
		patch_data_slot(&at);
	if (work->only_patches)
		return;
	if (sosc_select_slot(at.symbol, at.version, at.callee, &at.choice))
		hook_glob_dat(&at);
	else if (sosc_guard_kind(&at) && find_kind(&at))
		sosc_slot_guard(&at);
}
