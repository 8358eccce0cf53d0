// SPDX-License-Identifier: Apache-2.0
// An image's relocations: which of them fill slots, which of those are chosen, and
// how each is to be hooked.

#include "slot.h"
#include "sys.h"

static void leave(struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	__atomic_fetch_add(&sosc_control->slots_left, 1, __ATOMIC_RELAXED);
	if (image->index != SOSC_NONE)
		images[image->index].slots_left++;
}

static bool describe(struct sosc_candidate *at, struct sosc_loaded *image, const Elf64_Rela *rela)
{
	uint32_t symbol = (uint32_t)ELF64_R_SYM(rela->r_info);
	struct sosc_loaded *callee;

	memset(at, 0, sizeof(*at));
	at->image = image;
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

// As `describe`, for a slot that holds an address which may be a stub of the program's.
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

static void hook_jump_slots(struct sosc_loaded *image)
{
	uint64_t table = (uint64_t)image->jmprel;
	uint64_t table_end = (uint64_t)(image->jmprel + image->jmprelcount);
	int flags = sosc_segment_flags(image, table);
	bool lazy = false;

	for (uint64_t i = 0; i < image->jmprelcount; i++) {
		struct sosc_candidate at;
		uint64_t past;

		if (ELF64_R_TYPE(image->jmprel[i].r_info) != R_X86_64_JUMP_SLOT ||
		    !describe(&at, image, &image->jmprel[i]))
			continue;
		at.kind = SOSC_SLOT_JUMP_SLOT;
		at.index = i;
		at.lazy = sosc_lazy_way(image, at.value, i);
		past = at.lazy ? 0 : sosc_past_canonical(at.value);
		if (past)
			at.value = past;
		if (at.lazy || past || !at.callee)
			(void)sosc_lookup_all(image->ns, at.symbol, at.version, &at.callee);
		if (!sosc_select_slot(at.symbol, at.callee, &at.choice)) {
			leave(image);
			if (past)
				(void)sosc_change_word(image, at.addr, past);
			if (sosc_guard_kind(at.symbol))
				sosc_slot_guard(&at);
		} else if (at.choice.flags & SOSC_FN_NEVER) {
			sosc_slot_refuse(&at, SOSC_REFUSED_NOT_A_CALL);
		} else {
			lazy |= at.lazy != BOUND;
			sosc_slot_hook(&at);
		}
	}
	if (lazy && !(flags & (PF_X | PF_W)))
		(void)sosc_protect(table & ~(uint64_t)(SOSC_PAGE - 1),
				   (table_end + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1),
				   PROT_READ);
}

static bool in_jmprel(const struct sosc_loaded *image, const Elf64_Rela *rela)
{
	return image->jmprel && rela >= image->jmprel && rela < image->jmprel + image->jmprelcount;
}

// A GLOB_DAT that leads to a function and is wanted.
static bool wanted_glob_dat(struct sosc_candidate *at, struct sosc_loaded *image,
			    const Elf64_Rela *rela)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
	uint32_t symbol = (uint32_t)ELF64_R_SYM(rela->r_info), kind;

	if ((type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT) || in_jmprel(image, rela))
		return false;
	kind = ELF64_ST_TYPE(image->symtab[symbol].st_info);
	if (kind == STT_OBJECT || kind == STT_TLS || !describe_data(at, image, rela))
		return false;
	if (!at->callee || !sosc_addr_executable(sosc_image_of(at->value), at->value))
		return false;
	at->kind = type == R_X86_64_JUMP_SLOT ? SOSC_SLOT_JUMP_SLOT : SOSC_SLOT_GLOB_DAT;
	if (sosc_select_slot(at->symbol, at->callee, &at->choice))
		return true;
	leave(image);
	return false;
}

static void hook_glob_dat(struct sosc_candidate *at)
{
	uint32_t uses = at->uses->uses;
	uint64_t past = sosc_past_canonical(at->value);

	if (past)
		at->value = past;
	if (at->choice.flags & SOSC_FN_NEVER) {
		sosc_slot_refuse(at, SOSC_REFUSED_NOT_A_CALL);
	} else if (at->kind == SOSC_SLOT_JUMP_SLOT) {
		sosc_slot_hook(at);
	} else if (uses && !(uses & (SOSC_USE_LOAD | SOSC_USE_CALLED_LOAD))) {
		sosc_slot_hook(at);
	} else if (uses & SOSC_USE_STUB) {
		at->kind = SOSC_SLOT_PLT_GOT;
		sosc_slot_hook(at);
	} else if (uses & (SOSC_USE_CALL | SOSC_USE_JUMP | SOSC_USE_CALLED_LOAD)) {
		at->kind = SOSC_SLOT_CALL_SITES;
		sosc_slot_hook(at);
	} else {
		sosc_slot_refuse(at, SOSC_REFUSED_ADDRESS_TAKEN);
	}
}

static void hook_data_slots(struct sosc_loaded *image)
{
	struct sosc_scan scan = {.image = image};
	struct sosc_candidate at;
	uint64_t size;
	uint32_t wanted = 0;

	for (uint64_t i = 0; i < image->relacount; i++)
		wanted += ELF64_R_TYPE(image->rela[i].r_info) == R_X86_64_GLOB_DAT ||
			  ELF64_R_TYPE(image->rela[i].r_info) == R_X86_64_JUMP_SLOT;
	if (!wanted)
		return;
	size = (uint64_t)wanted * sizeof(*scan.slots);
	scan.slots =
		sosc_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sosc_mmap_failed(scan.slots))
		return;
	for (uint64_t i = 0; i < image->relacount; i++)
		if (wanted_glob_dat(&at, image, &image->rela[i])) {
			scan.slots[scan.count].addr = at.addr;
			scan.slots[scan.count++].relocation = (uint32_t)i;
		}
	sosc_scan_text(&scan);
	for (uint32_t i = 0; i < scan.count; i++)
		if (describe_data(&at, image, &image->rela[scan.slots[i].relocation])) {
			at.kind = ELF64_R_TYPE(at.rela->r_info) == R_X86_64_JUMP_SLOT ?
					  SOSC_SLOT_JUMP_SLOT :
					  SOSC_SLOT_GLOB_DAT;
			at.scan = &scan;
			at.uses = &scan.slots[i];
			if (sosc_select_slot(at.symbol, at.callee, &at.choice))
				hook_glob_dat(&at);
		}
	sosc_scan_end(&scan);
	(void)sosc_sys3(SYS_MUNMAP, (long)scan.slots, (long)size, 0);
}

/**
 * Hook the chosen slots of @image, which must be relocated and must not be
 * unloaded meanwhile: at launch, or on the loading thread.
 */
void sosc_image_hook(struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	if (image->hooked || image->loader || !image->symtab || !image->strtab)
		return;
	image->hooked = true;
	if (image->relro_start &&
	    !sosc_protect(image->relro_start, image->relro_end, PROT_READ | PROT_WRITE)) {
		if (image->index != SOSC_NONE)
			images[image->index].flags |= SOSC_IMAGE_WRITE_REFUSED;
		return;
	}
	if (image->ns && sosc_same(image->name, "libc.so.6"))
		(void)sosc_errno_find(image);
	sosc_unwind_hook(image);
	sosc_select_image(image);
	sosc_slots_begin(image);
	hook_jump_slots(image);
	hook_data_slots(image);
	sosc_slots_end();
	if (image->relro_start)
		(void)sosc_protect(image->relro_start, image->relro_end, PROT_READ);
}
