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

static void hook_jump_slot(struct sosc_hooking *work, uint64_t i)
{
	struct sosc_loaded *image = work->image;
	struct sosc_candidate at;
	uint64_t past;

	if (ELF64_R_TYPE(image->jmprel[i].r_info) != R_X86_64_JUMP_SLOT ||
	    !describe(&at, image, &image->jmprel[i]))
		return;
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
		work->lazy |= at.lazy != BOUND;
		sosc_slot_hook(&at);
	}
}

// The table was left writable where slots are lazy: see sosc_redirect_binding.
static void protect_table(const struct sosc_hooking *work)
{
	const struct sosc_loaded *image = work->image;
	uint64_t table = (uint64_t)image->jmprel;
	uint64_t end = (uint64_t)(image->jmprel + image->jmprelcount);

	if (work->lazy && !(sosc_segment_flags(image, table) & (PF_X | PF_W)))
		(void)sosc_protect(table & ~(uint64_t)(SOSC_PAGE - 1),
				   (end + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1), PROT_READ);
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

// What of an image is hooked besides DT_JMPREL.
static void find_data_slots(struct sosc_hooking *work)
{
	struct sosc_loaded *image = work->image;
	struct sosc_scan *scan = &work->scan;
	struct sosc_candidate at;
	uint32_t wanted = 0;

	for (uint64_t i = 0; i < image->relacount; i++)
		wanted += ELF64_R_TYPE(image->rela[i].r_info) == R_X86_64_GLOB_DAT ||
			  ELF64_R_TYPE(image->rela[i].r_info) == R_X86_64_JUMP_SLOT;
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
		if (wanted_glob_dat(&at, image, &image->rela[i])) {
			scan->slots[scan->count].addr = at.addr;
			scan->slots[scan->count++].relocation = (uint32_t)i;
		}
	sosc_scan_sort(scan);
}

static void hook_data_slot(struct sosc_hooking *work, uint64_t i)
{
	struct sosc_scanned *slot = &work->scan.slots[i];
	struct sosc_candidate at;

	if (!describe_data(&at, work->image, &work->image->rela[slot->relocation]))
		return;
	at.kind = ELF64_R_TYPE(at.rela->r_info) == R_X86_64_JUMP_SLOT ? SOSC_SLOT_JUMP_SLOT :
									SOSC_SLOT_GLOB_DAT;
	at.scan = &work->scan;
	at.uses = slot;
	if (sosc_select_slot(at.symbol, at.callee, &at.choice))
		hook_glob_dat(&at);
}

enum { OFTEN = 16 }; // slots between looks at the clock

// Each of @count, from where the last turn has ended; whether it came to the end.
static bool each(struct sosc_hooking *work, uint64_t count, uint64_t until,
		 void (*hook)(struct sosc_hooking *, uint64_t))
{
	while (work->next < count) {
		hook(work, work->next++);
		if (work->next % OFTEN == 0 && sosc_is_over(until))
			return false;
	}
	work->next = 0;
	return true;
}

static bool go_on(struct sosc_hooking *work, uint64_t until)
{
	switch (work->stage) {
	case HOOK_JUMP_SLOTS:
		if (!each(work, work->image->jmprelcount, until, hook_jump_slot))
			return false;
		work->stage = FIND_DATA_SLOTS; // fall through
	case FIND_DATA_SLOTS:
		find_data_slots(work);
		work->stage = SCAN_TEXT;
		if (sosc_is_over(until))
			return false; // fall through
	case SCAN_TEXT:
		if (!sosc_scan_text(&work->scan, until))
			return false;
		work->stage = HOOK_DATA_SLOTS; // fall through
	default:
		return each(work, work->scan.count, until, hook_data_slot);
	}
}

static bool open_relro(const struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	if (!image->relro_start ||
	    sosc_protect(image->relro_start, image->relro_end, PROT_READ | PROT_WRITE))
		return true;
	if (image->index != SOSC_NONE)
		images[image->index].flags |= SOSC_IMAGE_WRITE_REFUSED;
	return false;
}

static void close_relro(const struct sosc_loaded *image)
{
	if (image->relro_start)
		(void)sosc_protect(image->relro_start, image->relro_end, PROT_READ);
}

/** Let unwinders in @image ask for our trampolines, too; its slots are hooked later. */
void sosc_image_wait(struct sosc_loaded *image)
{
	image->waits = open_relro(image);
	if (!image->waits)
		return;
	sosc_unwind_hook(image);
	close_relro(image);
}

/**
 * Hook chosen slots of work->image, which must be relocated and must not be unloaded
 * meanwhile: with everything stopped where the loader is idle (@alone), or on the loading
 * thread. False: it is past @until (see sosc_is_over), call this again.
 */
bool sosc_hook_some(struct sosc_hooking *work, uint64_t until, bool alone)
{
	struct sosc_loaded *image = work->image;
	bool done;

	if (!open_relro(image)) {
		sosc_hook_forget(work);
		return true;
	}
	sosc_write_often(alone);
	sosc_select_image(image, image->hooked);
	if (!image->hooked) {
		image->hooked = true;
		if (image->ns && sosc_same(image->name, "libc.so.6"))
			(void)sosc_errno_find(image);
		sosc_unwind_hook(image);
		sosc_slots_begin(image);
	}
	done = go_on(work, until);
	sosc_slots_end();
	sosc_write_often(false);
	protect_table(work);
	close_relro(image);
	if (done)
		sosc_hook_forget(work);
	return done;
}

/** Give back what the work on an image has taken. */
void sosc_hook_forget(struct sosc_hooking *work)
{
	sosc_scan_end(&work->scan);
	if (work->size)
		(void)sosc_sys3(SYS_MUNMAP, (long)work->scan.slots, (long)work->size, 0);
	memset(work, 0, sizeof(*work));
}

/** As sosc_hook_some, to the end. */
void sosc_image_hook(struct sosc_loaded *image, bool alone)
{
	struct sosc_hooking work = {.image = image, .scan = {.image = image}};

	if (!image->hooked && !image->loader && image->symtab && image->strtab)
		(void)sosc_hook_some(&work, 0, alone);
}
