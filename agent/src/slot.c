// SPDX-License-Identifier: Apache-2.0
// Slots: finding an image's, and pointing the chosen ones at entry trampolines.
//
// A lazy slot is hooked before it is bound. Its cell's original is what the slot
// held, the linker's own way into the resolver; the relocation that the resolver
// will obey is changed to name the cell instead of the slot. So the loader binds
// by its own rules, stores the address where we want it, and never touches the
// slot again: there is no moment at which a call can pass the hook.

#include "agent.h"
#include "sys.h"

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

// ---- lazy slots ------------------------------------------------------------

enum lazy {
	BOUND,
	LAZY_PUSH, // the PLT pushes the index itself
	LAZY_REGISTER, // the PLT passes the index in r11 to PLT0 (mold)
};

// The linker's stubs may be the last bytes of their segment.
static void read_code(const struct sosc_loaded *image, uint64_t addr, uint8_t code[16])
{
	for (int i = 0; i < 16; i++)
		code[i] = sosc_addr_executable(image, addr + (uint64_t)i) ?
				  *(const uint8_t *)(addr + (uint64_t)i) :
				  0;
}

static enum lazy is_lazy(const struct sosc_loaded *image, uint64_t value, uint64_t index)
{
	uint8_t bytes[16];
	const uint8_t *code = bytes;
	uint32_t word;

	if (!image->pltgot || !image->pltgot[2] || !sosc_addr_executable(image, value))
		return BOUND;
	read_code(image, value, bytes);
	memcpy(&word, code, 4);
	if (word == 0xfa1e0ff3) // endbr64
		code += 4;
	memcpy(&word, code + 1, 4);
	if (code[0] == 0x68 && word == index) // push $index
		return LAZY_PUSH;
	for (int i = 0; i < 4; i++) { // PLT0: push GOT[1](%rip)
		uint64_t next = value + (uint64_t)(code - bytes) + (uint64_t)i + 6;

		memcpy(&word, code + i + 2, 4);
		if (code[i] == 0xff && code[i + 1] == 0x35 &&
		    next + (uint64_t)(int64_t)(int32_t)word == (uint64_t)&image->pltgot[1])
			return LAZY_REGISTER;
	}
	return BOUND;
}

static int segment_flags(const struct sosc_loaded *image, uint64_t addr)
{
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t start = image->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && addr >= start && addr < start + phdr->p_memsz)
			return (int)phdr->p_flags;
	}
	return 0;
}

// ---- one slot --------------------------------------------------------------

struct candidate {
	struct sosc_loaded *image;
	const Elf64_Rela *rela;
	const char *symbol;
	const char *version;
	struct sosc_loaded *callee;
	struct sosc_choice choice;
	uint64_t addr; // of the cell the loader fills in
	uint64_t value; // what it holds
	uint64_t index; // in DT_JMPREL
	enum lazy lazy;
	enum sosc_slot_kind kind;
	uint64_t stub; // PLT_GOT: its jmp
};

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

// The place of the same slot in an image that was closed and loaded again.
static uint32_t known_slot(const struct candidate *at, uint32_t symbol)
{
	uint32_t image = at->image->index;

	if (image == SOSC_NONE)
		return SOSC_NONE;
	for (uint32_t i = first_slot[image]; i < first_slot[image] + slot_count[image]; i++)
		if (sosc_hooks[i].addr == at->addr && sosc_hooks[i].symbol == symbol)
			return i;
	return SOSC_NONE;
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

static struct sosc_slot *write_record(const struct candidate *at, uint32_t index, uint32_t symbol,
				      enum sosc_slot_refusal refusal)
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

static void refuse(const struct candidate *at, enum sosc_slot_refusal refusal)
{
	uint32_t symbol = sosc_string(at->symbol);
	uint32_t index = known_slot(at, symbol);

	if (index == SOSC_NONE)
		index = new_slot(at->image);
	if (index == SOSC_NONE)
		return;
	sosc_hooks[index].addr = at->addr;
	sosc_hooks[index].symbol = symbol;
	__atomic_store_n(&write_record(at, index, symbol, refusal)->ready, 1, __ATOMIC_RELEASE);
}

// Points the relocation at the cell, so that the loader binds there.
static bool redirect_binding(const struct candidate *at, uint64_t target)
{
	uint64_t offset = target - at->image->bias;
	uint64_t field = (uint64_t)&at->rela->r_offset;
	int flags = segment_flags(at->image, field);

	if (!flags)
		return false;
	if (flags & PF_X || !(flags & PF_W)) {
		uint64_t start = field & ~(uint64_t)(SOSC_PAGE - 1);
		uint64_t end = (field + 8 + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);

		if (flags & PF_X)
			return sosc_write(field, &offset, sizeof(offset), true);
		if (!sosc_protect(start, end, PROT_READ | PROT_WRITE))
			return sosc_write(field, &offset, sizeof(offset), false);
	}
	// left writable: hook_jump_slots protects the table when it is done
	*(uint64_t *)field = offset;
	return true;
}

// Leaves the GLOB_DAT as it is: only those that call through it get our value.
static bool reaim(const struct candidate *at, uint64_t value)
{
	uint64_t shadow = sosc_shadow_cell(at->image, at->addr);
	int64_t displacement = (int64_t)(shadow - (at->stub + 6));
	int32_t rel32 = (int32_t)displacement;

	if (!shadow)
		return false;
	*(uint64_t *)shadow = value;
	if (at->kind == SOSC_SLOT_CALL_SITES)
		return sosc_scan_sites(at->image, at->addr, shadow) > 0;
	return displacement == rel32 && sosc_write(at->stub + 2, &rel32, sizeof(rel32), true);
}

static bool store_slot(const struct candidate *at, uint64_t value)
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

enum { RESOLVE_CELL = 1, GUARD_CELL = 2, ALIAS_CELL = 3 };

// In a program that is not position independent a function's address may be the
// program's own stub, and other images are bound to that: their calls would be
// the program's too. A way round, if @value is such a stub and its slot hooked.
static uint64_t past_canonical(const struct sosc_loaded *image, const char *symbol, uint64_t value)
{
	const struct sosc_loaded *program = &sosc_loaded[0];
	uint32_t text = program->index, alias;

	if (image == program || text == SOSC_NONE || !sosc_addr_executable(program, value))
		return 0;
	text = sosc_string(symbol);
	for (uint32_t i = first_slot[program->index];
	     i < first_slot[program->index] + slot_count[program->index]; i++) {
		if (sosc_hooks[i].symbol != text || sosc_slot(i)->refusal ||
		    sosc_slot(i)->kind != SOSC_SLOT_JUMP_SLOT)
			continue;
		alias = own_cell(sosc_hooks[i].addr, ALIAS_CELL);
		if (alias == SOSC_NONE)
			return 0;
		sosc_cells[alias].original = (uint64_t)&sosc_cells[i];
		sosc_cells[alias].handler = (uint64_t)sosc_h_alias;
		return sosc_entry_of(alias);
	}
	return 0;
}

// Where a hook's calls go at first, and the cell that the loader is to bind. A
// guard stands behind the hook of a function that may forbid rdtsc or system
// calls: it sees the call before it is made.
static uint64_t original_of(const struct candidate *at, uint64_t **bind)
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

static void hook(const struct candidate *at)
{
	uint32_t symbol = sosc_string(at->symbol), index = known_slot(at, symbol);
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
		refuse(at, SOSC_REFUSED_FULL);
		return;
	}
	sosc_hooks[index].addr = at->addr;
	sosc_hooks[index].symbol = symbol;
	sosc_hooks[index].function = at->choice.function;
	sosc_hooks[index].relocation = at->lazy ? (uint64_t)at->rela : 0;
	sosc_hooks[index].image = at->image->index;
	if (known && cell->original != original)
		sosc_sites_retarget(cell, original);
	cell->original = original;
	__atomic_store_n(&cell->handler,
			 sosc_quiet ? (uint64_t)sosc_h_jump : handler_of(&at->choice, entry_only),
			 __ATOMIC_RELEASE);
	slot = write_record(at, index, symbol, SOSC_HOOKED);
	if (entry_only)
		slot->flags |= SOSC_SLOT_ENTRY_ONLY;
	if (at->lazy && !redirect_binding(at, (uint64_t)bind))
		slot->refusal = SOSC_REFUSED_WRITE;
	else if (!store_slot(at, sosc_entry_of(index)))
		slot->refusal = at->kind >= SOSC_SLOT_PLT_GOT ? SOSC_REFUSED_TEXT :
								SOSC_REFUSED_WRITE;
	__atomic_store_n(&slot->ready, 1, __ATOMIC_RELEASE);
}

// A guard without a hook in front of it.
static void guard_only(const struct candidate *at)
{
	uint64_t original, *bind = NULL;

	original = original_of(at, &bind);
	if (!bind || (at->lazy && !redirect_binding(at, (uint64_t)bind)))
		return;
	__atomic_store_n((uint64_t *)at->addr, original, __ATOMIC_RELEASE);
}

// ---- an image --------------------------------------------------------------

static void leave(struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	__atomic_fetch_add(&sosc_control->slots_left, 1, __ATOMIC_RELAXED);
	if (image->index != SOSC_NONE)
		images[image->index].slots_left++;
}

static bool describe(struct candidate *at, struct sosc_loaded *image, const Elf64_Rela *rela)
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

static void hook_jump_slots(struct sosc_loaded *image)
{
	uint64_t table = (uint64_t)image->jmprel;
	uint64_t table_end = (uint64_t)(image->jmprel + image->jmprelcount);
	int flags = segment_flags(image, table);
	bool lazy = false;

	for (uint64_t i = 0; i < image->jmprelcount; i++) {
		struct candidate at;
		uint64_t past;

		if (ELF64_R_TYPE(image->jmprel[i].r_info) != R_X86_64_JUMP_SLOT ||
		    !describe(&at, image, &image->jmprel[i]))
			continue;
		at.kind = SOSC_SLOT_JUMP_SLOT;
		at.index = i;
		at.lazy = is_lazy(image, at.value, i);
		past = at.lazy ? 0 : past_canonical(image, at.symbol, at.value);
		if (past)
			at.value = past;
		if (at.lazy || past || !at.callee)
			(void)sosc_lookup_all(at.symbol, at.version, &at.callee);
		if (!sosc_select_slot(at.symbol, at.callee, &at.choice)) {
			leave(image);
			if (past)
				__atomic_store_n((uint64_t *)at.addr, past, __ATOMIC_RELEASE);
			if (sosc_guard_kind(at.symbol))
				guard_only(&at);
		} else if (at.choice.flags & SOSC_FN_NEVER) {
			refuse(&at, SOSC_REFUSED_NOT_A_CALL);
		} else {
			lazy |= at.lazy != BOUND;
			hook(&at);
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
static bool wanted_glob_dat(struct candidate *at, struct sosc_loaded *image, const Elf64_Rela *rela)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
	uint32_t symbol = (uint32_t)ELF64_R_SYM(rela->r_info), kind;

	if ((type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT) || in_jmprel(image, rela))
		return false;
	kind = ELF64_ST_TYPE(image->symtab[symbol].st_info);
	if (kind == STT_OBJECT || kind == STT_TLS || !describe(at, image, rela))
		return false;
	if (!at->callee || !sosc_addr_executable(at->callee, at->value))
		return false;
	at->kind = type == R_X86_64_JUMP_SLOT ? SOSC_SLOT_JUMP_SLOT : SOSC_SLOT_GLOB_DAT;
	if (sosc_select_slot(at->symbol, at->callee, &at->choice))
		return true;
	leave(image);
	return false;
}

static void hook_glob_dat(struct candidate *at, const struct sosc_scan *scan)
{
	uint64_t past = past_canonical(at->image, at->symbol, at->value);

	if (past) {
		at->value = past;
		(void)sosc_lookup_all(at->symbol, at->version, &at->callee);
	}
	if (at->choice.flags & SOSC_FN_NEVER) {
		refuse(at, SOSC_REFUSED_NOT_A_CALL);
	} else if (at->kind == SOSC_SLOT_JUMP_SLOT) {
		hook(at);
	} else if (scan->uses && !(scan->uses & (SOSC_USE_LOAD | SOSC_USE_CALLED_LOAD))) {
		hook(at);
	} else if (scan->uses & SOSC_USE_STUB) {
		at->kind = SOSC_SLOT_PLT_GOT;
		at->stub = scan->stub;
		hook(at);
	} else if (scan->uses & (SOSC_USE_CALL | SOSC_USE_JUMP | SOSC_USE_CALLED_LOAD)) {
		at->kind = SOSC_SLOT_CALL_SITES;
		hook(at);
	} else {
		refuse(at, SOSC_REFUSED_ADDRESS_TAKEN);
	}
}

static void hook_data_slots(struct sosc_loaded *image)
{
	struct candidate at;
	struct sosc_scan *scans;
	uint64_t size;
	uint32_t count = 0, wanted = 0;

	for (uint64_t i = 0; i < image->relacount; i++)
		wanted += ELF64_R_TYPE(image->rela[i].r_info) == R_X86_64_GLOB_DAT ||
			  ELF64_R_TYPE(image->rela[i].r_info) == R_X86_64_JUMP_SLOT;
	if (!wanted)
		return;
	size = (uint64_t)wanted * sizeof(*scans);
	scans = sosc_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sosc_mmap_failed(scans))
		return;
	for (uint64_t i = 0; i < image->relacount; i++)
		if (wanted_glob_dat(&at, image, &image->rela[i])) {
			scans[count].addr = at.addr;
			scans[count++].relocation = (uint32_t)i;
		}
	sosc_scan_text(image, scans, count);
	for (uint32_t i = 0; i < count; i++)
		if (describe(&at, image, &image->rela[scans[i].relocation])) {
			at.kind = ELF64_R_TYPE(at.rela->r_info) == R_X86_64_JUMP_SLOT ?
					  SOSC_SLOT_JUMP_SLOT :
					  SOSC_SLOT_GLOB_DAT;
			if (sosc_select_slot(at.symbol, at.callee, &at.choice))
				hook_glob_dat(&at, &scans[i]);
		}
	(void)sosc_sys3(SYS_MUNMAP, (long)scans, (long)size, 0);
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
	sosc_unwind_hook(image);
	sosc_select_image(image);
	hook_jump_slots(image);
	hook_data_slots(image);
	if (image->relro_start)
		(void)sosc_protect(image->relro_start, image->relro_end, PROT_READ);
}
