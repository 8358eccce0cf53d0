// SPDX-License-Identifier: Apache-2.0
// The slots of a program that counts its own calls. Its threads are not stopped for that, and there
// is no session. So each word is changed by one atomic exchange, while the loader's lock keeps all
// images in place. Code is not changed. A slot that cannot be hooked safely is left alone and
// reported. A thunk is never freed, because a thread may be in it, or another tool may have its
// address.

#include "tally/tallyslots.h"
#include "base/memory.h"
#include "base/sys.h"
#include "call/cell.h"
#include "call/handler.h"
#include "hook/lazy.h"
#include "image/lookup.h"

enum {
	CHUNKS_MAX = 64, // chunks of thunks
	CHUNK_THUNKS = SOSC_PAGE / TALLY_THUNK_SIZE,
	CHUNK_SIZE = SOSC_PAGE + CHUNK_THUNKS * TALLY_SLOT_SIZE,
	CELLS_MOST = 16, // most cells of an agent behind one another
};

static uint64_t chunks[CHUNKS_MAX];
static uint32_t thunk_count; // thunks made so far
static struct sosc_tally_left lefts[SOSC_TALLY_LEFTS];
static uint32_t left_count, left_more, slot_count;
static uint32_t found[TALLY_FUNCTIONS_MAX];
static uint64_t resident; // base address of an agent that soscope has put in, 0 if there is none

// ---- thunks ----------------------------------------------------------------------

static struct sosc_tally_slot *slot_at(uint32_t index)
{
	return (struct sosc_tally_slot *)(chunks[index / CHUNK_THUNKS] + SOSC_PAGE) +
	       index % CHUNK_THUNKS;
}

static uint64_t thunk_of(uint32_t index)
{
	return chunks[index / CHUNK_THUNKS] + index % CHUNK_THUNKS * TALLY_THUNK_SIZE;
}

// Returns the number of the thunk at @addr, or SOSC_NONE.
static uint32_t thunk_at(uint64_t addr)
{
	for (uint32_t i = 0; i < CHUNKS_MAX && chunks[i]; i++)
		if (addr - chunks[i] < SOSC_PAGE)
			return i * CHUNK_THUNKS + (uint32_t)(addr - chunks[i]) / TALLY_THUNK_SIZE;
	return SOSC_NONE;
}

static bool thunk_data_at(uint64_t addr)
{
	for (uint32_t i = 0; i < CHUNKS_MAX && chunks[i]; i++)
		if (addr - chunks[i] < CHUNK_SIZE)
			return true;
	return false;
}

static uint32_t new_thunk(void)
{
	uint32_t chunk = thunk_count / CHUNK_THUNKS;
	uint8_t *made;

	if (chunk == CHUNKS_MAX)
		return SOSC_NONE;
	if (!chunks[chunk]) {
		made = sosc_mmap(NULL, CHUNK_SIZE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (sosc_mmap_failed(made))
			return SOSC_NONE;
		memcpy(made, sosc_tally_page, SOSC_PAGE);
		if (!sosc_protect((uint64_t)made, (uint64_t)made + SOSC_PAGE,
				  PROT_READ | PROT_EXEC)) {
			(void)sosc_sys3(SYS_MUNMAP, (long)made, CHUNK_SIZE, 0);
			return SOSC_NONE;
		}
		chunks[chunk] = (uint64_t)made;
	}
	return thunk_count++;
}

static bool is_of(const struct sosc_tally_left *left, const char *path)
{
	uint32_t i = 0;

	while (left->path[i] && left->path[i] == (uint8_t)path[i])
		i++;
	return !left->path[i] && (!path[i] || i == SOSC_TALLY_PATH - 1);
}

// Reports a slot that is not counted. The same slot may be met many times, and is reported once.
static void leave_at(const char *path, uint32_t function, enum sosc_tally_why why)
{
	struct sosc_tally_left *left = &lefts[left_count];
	uint32_t i = 0;

	for (uint32_t at = 0; at < left_count; at++)
		if (lefts[at].function == function && lefts[at].why == why &&
		    is_of(&lefts[at], path))
			return;
	if (left_count == SOSC_TALLY_LEFTS) {
		left_more++;
		return;
	}
	left->function = function;
	left->why = why;
	for (; path[i] && i < SOSC_TALLY_PATH - 1; i++)
		left->path[i] = (uint8_t)path[i];
	left->path[i] = 0;
	left_count++;
}

static void leave(const struct sosc_loaded *image, uint32_t function, enum sosc_tally_why why)
{
	leave_at(image->path, function, why);
}

/** Report that an image found no room, or cannot be read: none of its slots is counted. */
void sosc_tally_leave_image(const char *path, enum sosc_tally_why why)
{
	leave_at(path, sosc_tally_function("dlsym"), why);
}

// ---- an agent that soscope has put in ------------------------------------------------

static bool is_trampoline(uint64_t value)
{
	return resident && sosc_leads_on(resident, value);
}

// Returns the address to which calls go behind all trampolines of that agent.
static uint64_t behind(uint64_t value)
{
	for (int i = 0; i < CELLS_MOST && is_trampoline(value); i++)
		value = *(uint64_t *)(value + SOSC_DISTANCE + CELL_ORIGINAL);
	return value;
}

// Returns the address of the slot of a relocation, or 0 if unknown. That agent may have redirected
// the relocation, and keeps its old offset in the journal.
static uint64_t addr_of(const struct sosc_loaded *image, const Elf64_Rela *rela)
{
	uint64_t addr = image->bias + rela->r_offset;
	const struct sosc_inside *inside = (const void *)(resident + SOSC_BLOB_DATA);
	const struct sosc_change *changes;

	if (addr >= image->start && addr + 8 <= image->end)
		return addr;
	if (!resident)
		return 0;
	changes = (const void *)inside->changes;
	for (uint64_t i = __atomic_load_n(&inside->change_count, __ATOMIC_ACQUIRE); i--;)
		if (changes[i].addr == (uint64_t)&rela->r_offset)
			return image->bias + changes[i].before;
	return 0;
}

// ---- one slot ------------------------------------------------------------------------

struct at { // the slot that is being handled
	struct sosc_loaded *image;
	uint32_t place; // index in sosc_tally_images
	const Elf64_Rela *rela;
	uint64_t index; // index in DT_JMPREL
	uint32_t function;
	uint64_t addr, value;
	int relro; // PROT_... of the RELRO pages, -1: unknown, or no RELRO
};

static bool is_relro(const struct sosc_loaded *image, uint64_t addr)
{
	return addr >= image->relro_start && addr < image->relro_end;
}

static void forget(struct sosc_tally_slot *slot)
{
	slot->addr = slot->field = slot->is_active = 0;
}

static void aim(struct sosc_tally_slot *slot, const struct at *at)
{
	slot->addr = at->addr;
	slot->before = at->value;
	slot->image = at->place;
	slot->function = at->function;
	slot->field = 0;
	slot->is_gone = 0;
	slot->session_at = 0;
	if (is_trampoline(at->value)) {
		uint64_t sessions =
			resident + SOSC_BLOB_DATA + offsetof(struct sosc_inside, sessions);

		slot->session = *(uint64_t *)sessions;
		slot->untraced = behind(at->value);
		slot->session_at = sessions;
	}
	slot->is_active = 1;
	__atomic_store_n(&slot->original, at->value, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->handler, (uint64_t)sosc_h_tally, __ATOMIC_RELEASE);
}

// Returns the thunk that this slot had in an earlier trace, or the thunk of a slot whose image was
// unloaded. No call can go through the latter any more, and calls of the same function may still
// return to it. It must not be behind the present value of the slot.
static uint32_t thunk_for(const struct at *at)
{
	uint32_t left = SOSC_NONE;

	for (uint32_t i = 0; i < thunk_count; i++) {
		const struct sosc_tally_slot *slot = slot_at(i);

		if (slot->is_active || slot->function != at->function ||
		    behind(at->value) == thunk_of(i))
			continue;
		if (slot->addr == at->addr && slot->image == at->place)
			return i;
		if (slot->is_gone)
			left = i;
	}
	return left == SOSC_NONE ? new_thunk() : left;
}

static void hook(const struct at *at, bool lazy)
{
	uint32_t index = thunk_for(at);
	struct sosc_tally_slot *slot;
	bool closed = is_relro(at->image, at->addr);

	if (index == SOSC_NONE) {
		leave(at->image, at->function, SOSC_TALLY_FULL);
		return;
	}
	slot = slot_at(index);
	aim(slot, at);
	if (lazy) {
		uint64_t field = (uint64_t)&at->rela->r_offset;
		uint64_t to = (uint64_t)&slot->original - at->image->bias;

		slot->field = field;
		slot->field_before = at->rela->r_offset;
		if (!sosc_tally_redirect(field, slot->field_before, to,
					 sosc_segment_flags(at->image, field) & PF_X)) {
			forget(slot);
			leave(at->image, at->function, SOSC_TALLY_READ_ONLY);
			return;
		}
	}
	if (sosc_tally_exchange(at->addr, at->value, thunk_of(index), closed)) {
		slot_count++;
		found[at->function]++;
		return;
	}
	slot->is_active = 0;
	// usually bound by another thread meanwhile
	leave(at->image, at->function, SOSC_TALLY_TAKEN);
}

// The slot still has a thunk from an earlier trace, because another tool had changed the slot when
// that trace ended.
static void use_again(const struct at *at, uint32_t index)
{
	struct sosc_tally_slot *slot = slot_at(index);

	if (!slot->is_active) {
		slot->is_active = 1;
		slot->is_gone = 0;
		slot->addr = at->addr;
		slot->function = at->function;
		slot->image = at->place;
		__atomic_store_n(&slot->handler, (uint64_t)sosc_h_tally, __ATOMIC_RELEASE);
		slot_count++;
		found[at->function]++;
	}
}

static void look_at(struct at *at)
{
	uint32_t symbol = (uint32_t)ELF64_R_SYM(at->rela->r_info);
	uint64_t last = behind(at->value); // value of the slot without trampolines of an agent
	enum sosc_lazy_way way = sosc_lazy_way(at->image, last, at->index);
	const struct sosc_tally_image *to = sosc_tally_image_at(last);

	if (thunk_at(at->value) != SOSC_NONE) {
		use_again(at, thunk_at(at->value));
		return;
	}
	// calls do not leave the library
	if (at->image->symtab[symbol].st_shndx != SHN_UNDEF &&
	    (way != BOUND || to == &sosc_tally_images[at->place]))
		return;
	if (is_relro(at->image, at->addr) && (at->relro < 0 || at->relro & PROT_WRITE))
		sosc_tally_images[at->place].is_done = false; // the image is just being loaded
	else if (is_trampoline(at->value))
		hook(at, false);
	else if (way == LAZY_PUSH)
		hook(at, true);
	else if (way == LAZY_REGISTER)
		leave(at->image, at->function, SOSC_TALLY_STUBS);
	else if (!to)
		leave(at->image, at->function, SOSC_TALLY_FOREIGN);
	else if (!sosc_tally_is_canonical(at->value, sosc_symbol_name(at->image, symbol)))
		hook(at, false);
}

// ---- all slots -----------------------------------------------------------------------

static bool is_ours(const struct sosc_loaded *image)
{
	uint64_t here = (uint64_t)sosc_tally_page;

	return here >= image->start && here < image->end;
}

static uint32_t wanted(const struct sosc_loaded *image, const Elf64_Rela *rela)
{
	uint32_t symbol = (uint32_t)ELF64_R_SYM(rela->r_info);

	return symbol ? sosc_tally_function(sosc_symbol_name(image, symbol)) : SOSC_NONE;
}

// Reports slots whose address may be loaded by code, so that calls cannot be told apart.
static void look_at_addresses(struct sosc_loaded *image)
{
	for (uint64_t i = 0; i < image->relacount; i++) {
		uint32_t type = (uint32_t)ELF64_R_TYPE(image->rela[i].r_info), function;

		if (type != SOSC_RELOCATION_GLOB_DAT && type != SOSC_RELOCATION_ABSOLUTE)
			continue;
		if (image->jmprel && &image->rela[i] >= image->jmprel &&
		    &image->rela[i] < image->jmprel + image->jmprelcount)
			continue;
		function = wanted(image, &image->rela[i]);
		if (function != SOSC_NONE &&
		    image->symtab[ELF64_R_SYM(image->rela[i].r_info)].st_shndx == SHN_UNDEF)
			leave(image, function, SOSC_TALLY_ADDRESS);
	}
}

static void hook_image(struct sosc_tally_image *known)
{
	struct sosc_loaded *image = &known->loaded;
	struct at at = {
		.image = image, .place = (uint32_t)(known - sosc_tally_images), .relro = -1};

	known->is_done = true;
	if (!image->symtab || !image->strtab || is_ours(image) ||
	    sosc_lookup(image, "_r_debug", sosc_gnu_hash("_r_debug"), NULL))
		return;
	for (uint64_t i = 0; i < image->jmprelcount; i++) {
		const Elf64_Rela *rela = &image->jmprel[i];

		if (ELF64_R_TYPE(rela->r_info) != SOSC_RELOCATION_JUMP_SLOT)
			continue;
		at.function = wanted(image, rela);
		at.rela = rela;
		at.index = i;
		if (at.function == SOSC_NONE)
			continue;
		at.addr = addr_of(image, rela);
		if (!at.addr && thunk_data_at(image->bias + rela->r_offset))
			continue; // hooked already
		if (!at.addr || at.addr % 8) {
			leave(image, at.function, SOSC_TALLY_STUBS);
			continue;
		}
		if (at.relro < 0 && is_relro(image, at.addr))
			at.relro = sosc_tally_protection(at.addr);
		at.value = *(const uint64_t *)at.addr;
		if (at.value)
			look_at(&at);
	}
	if (!known->is_listed)
		look_at_addresses(image);
	known->is_listed = true;
}

// Other code may have changed a slot: a thread that was binding it, or another tool. Calls since
// then were not counted.
static void look_again(uint32_t index)
{
	struct sosc_tally_slot *slot = slot_at(index);
	uint64_t value = *(uint64_t *)slot->addr, thunk = thunk_of(index);
	const struct sosc_loaded *image = &sosc_tally_images[slot->image].loaded;

	if (value == thunk || behind(value) == thunk)
		return;
	leave(image, slot->function, SOSC_TALLY_TAKEN);
	if (slot->field && sosc_tally_image_at(value) &&
	    sosc_tally_image_at(value) != &sosc_tally_images[slot->image]) {
		__atomic_store_n(&slot->original, value, __ATOMIC_RELEASE);
		(void)sosc_tally_exchange(slot->addr, value, thunk, is_relro(image, slot->addr));
	}
}

static void look_again_at_all(void)
{
	for (uint32_t i = 0; i < thunk_count; i++)
		if (slot_at(i)->is_active && slot_at(i)->addr)
			look_again(i);
}

// Forgets slots of images that were unloaded, also if the same image was loaded at the same address
// again (@some_went): then the slot has its old value.
static void drop_gone(bool some_went)
{
	for (uint32_t i = 0; i < thunk_count; i++) {
		struct sosc_tally_slot *slot = slot_at(i);
		struct sosc_tally_image *image = &sosc_tally_images[slot->image];

		if (!slot->addr)
			continue;
		if (!image->loaded.map) {
			forget(slot);
			slot->is_gone = 1;
		} else if (some_went && slot->is_active &&
			   *(const uint64_t *)slot->addr != thunk_of(i) &&
			   behind(*(const uint64_t *)slot->addr) != thunk_of(i)) {
			forget(slot);
			slot->is_gone = 1;
			image->is_done = false;
		}
	}
}

/**
 * Hook slots of new images. @agent: see `resident`. @some_went: images were unloaded since the last
 * time.
 */
void sosc_tally_hook_all(uint64_t agent, bool some_went)
{
	resident = agent;
	drop_gone(some_went);
	for (uint32_t i = 0; i < sosc_tally_image_count; i++)
		if (sosc_tally_images[i].loaded.map && !sosc_tally_images[i].is_done)
			hook_image(&sosc_tally_images[i]);
	look_again_at_all();
}

// Returns whether the agent's trampoline may be put back into a slot: the agent is active, and will
// find it there when it is taken out.
static bool stands(const struct sosc_tally_slot *slot)
{
	const struct sosc_inside *inside = (const void *)(resident + SOSC_BLOB_DATA);
	const struct sosc_change *changes;
	uint32_t command, thread = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);

	if (!resident || *(uint64_t *)slot->session_at != slot->session ||
	    sosc_read(thread, &command, inside->control + offsetof(struct sosc_control, command),
		      sizeof(command)) != sizeof(command) ||
	    command == SOSC_COMMAND_STOP)
		return false;
	changes = (const void *)inside->changes;
	for (uint64_t i = __atomic_load_n(&inside->change_count, __ATOMIC_ACQUIRE); i--;)
		if (changes[i].addr == slot->addr && changes[i].after == slot->before)
			return true;
	return false;
}

// Restores one slot, unless the loader has bound it meanwhile. Calls that still come through the
// thunk go on, but never through a trampoline, which may lead to the thunk later.
static void unhook(struct sosc_tally_slot *slot, uint64_t thunk)
{
	const struct sosc_loaded *image = &sosc_tally_images[slot->image].loaded;
	uint64_t back = slot->before, under = slot->untraced;
	bool closed;

	if (slot->session_at)
		__atomic_store_n(&slot->original, under, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELEASE);
	slot->is_active = 0;
	if (!slot->addr)
		return;
	closed = is_relro(image, slot->addr);
	if (slot->field) {
		uint64_t to = (uint64_t)&slot->original - image->bias;

		back = __atomic_load_n(&slot->original, __ATOMIC_ACQUIRE);
		(void)sosc_tally_redirect(slot->field, to, slot->field_before,
					  sosc_segment_flags(image, slot->field) & PF_X);
	}
	if (slot->session_at && !stands(slot))
		back = under;
	if (sosc_tally_exchange(slot->addr, thunk, back, closed) && slot->session_at &&
	    back != under && !stands(slot))
		(void)sosc_tally_exchange(slot->addr, back, under, closed);
}

/** Restore all slots. */
void sosc_tally_unhook_all(bool some_went)
{
	drop_gone(some_went);
	look_again_at_all();
	for (uint32_t i = 0; i < thunk_count; i++)
		if (slot_at(i)->is_active)
			unhook(slot_at(i), thunk_of(i));
	slot_count = 0;
	for (uint32_t i = 0; i < sosc_tally_image_count; i++) {
		struct sosc_tally_image *at = &sosc_tally_images[i];

		if (at->loaded.map && !at->is_done)
			leave(&at->loaded, 0, SOSC_TALLY_LOADING);
		at->is_done = at->is_listed = false;
	}
	memset(found, 0, sizeof(found));
}

/** A trace begins. */
void sosc_tally_forget_lefts(void)
{
	left_count = left_more = 0;
}

/** Report which slots are counted, and which are not. */
void sosc_tally_tell_slots(struct sosc_tally *tally)
{
	tally->slots = slot_count;
	tally->lefts = (uint64_t)lefts;
	tally->left_count = left_count;
	tally->left_more = left_more;
	tally->found = (uint64_t)found;
	tally->sqlites = sosc_tally_sqlites;
}
