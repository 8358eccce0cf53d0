// SPDX-License-Identifier: Apache-2.0
// Unwinders find the trampolines' unwind rule because the agent answers for its own code: in every
// image, the slots of _dl_find_object (glibc 2.35) and dl_iterate_phdr lead to this file. That
// works for static unwinders, too, and needs no lock, no memory and no call into the target.

#include "hook/unwind.h"
#include "base/arch.h"
#include "base/instrument.h"
#include "base/state.h"
#include "call/cell.h"
#include "call/handler.h"
#include "hook/backtrace.h"
#include "image/changes.h"
#include "image/image.h"
#include "image/lookup.h"

struct find_object { // struct dl_find_object, <dlfcn.h> of glibc 2.35
	unsigned long long flags;
	void *map_start;
	void *map_end;
	struct link_map *link_map;
	void *eh_frame;
	unsigned long long reserved[7];
};

typedef int find_function(void *pc, struct find_object *result);

extern const uint8_t sosc_eh_frame_hdr[] __attribute__((visibility("hidden")));

static find_function *find_original;
static sosc_iterate *iterate_original;
static Elf64_Phdr own_headers[2];

static int find_object(void *pc, struct find_object *result)
{
	if (!sosc_is_ours((uint64_t)pc))
		return find_original(pc, result);
	result->flags = 0;
	result->map_start = (void *)sosc_base;
	result->map_end = (void *)(sosc_base + SOSC_BLOB_DATA);
	result->link_map = sosc_loaded[0].map;
	result->eh_frame = (void *)(uintptr_t)sosc_eh_frame_hdr;
	return 0;
}

struct first { // argument of a callback that is to see only the agent
	sosc_iterate_callback *callback;
	void *data;
	int result;
};

// Runs under the loader's lock, on which the callback's own data may rely.
static int first_callback(struct dl_phdr_info *info, size_t size, void *data)
{
	struct first *first = data;
	struct dl_phdr_info own = {
		.dlpi_addr = sosc_base,
		.dlpi_name = "",
		.dlpi_phdr = own_headers,
		.dlpi_phnum = 2,
	};

	if (size >= offsetof(struct dl_phdr_info, dlpi_tls_modid)) {
		own.dlpi_adds = info->dlpi_adds;
		own.dlpi_subs = info->dlpi_subs;
	}
	first->result = first->callback(&own, size < sizeof(own) ? size : sizeof(own), first->data);
	return 1;
}

/** Call @callback with the agent's own headers. Return its result. */
int sosc_iterate_first(sosc_iterate_callback *callback, void *data, sosc_iterate *original)
{
	struct first first = {.callback = callback, .data = data};

	(void)original(first_callback, &first);
	return first.result;
}

struct tee {
	sosc_iterate_callback *callback;
	void *data;
	bool seen;
};

static int tee_callback(struct dl_phdr_info *info, size_t size, void *data)
{
	struct tee *tee = data;

	tee->seen |= info->dlpi_phdr == own_headers;
	return tee->callback(info, size, tee->data);
}

// In the program's own namespace: the agent comes last, because callers expect the program itself
// first.
static int iterate(sosc_iterate_callback *callback, void *data)
{
	struct tee tee = {.callback = callback, .data = data};
	int result = iterate_original(tee_callback, &tee);

	if (result || tee.seen)
		return result;
	return sosc_iterate_first(callback, data, iterate_original);
}

// Returns whether some image throws exceptions with nongnu.org's libunwind. To continue a frame in
// a handler, that unwinder writes to the place of the caller's return address. The rule of a
// trampoline gives a value, which libunwind would take for such a place.
static bool writes_return_addresses(void)
{
	const char raise[] = "_Unwind_RaiseException", only_there[] = "_U_dyn_register";
	struct sosc_loaded *unwinder;

	if (!sosc_lookup_all(0, raise, NULL, &unwinder) ||
	    !sosc_lookup(unwinder, only_there, sosc_gnu_hash(only_there), NULL))
		return false;
	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		if (&sosc_loaded[i] != unwinder && sosc_loaded[i].map &&
		    sosc_imports(&sosc_loaded[i], raise))
			return true;
	return false;
}

void sosc_unwind_init(void)
{
	uint64_t table = (uint64_t)sosc_eh_frame_hdr - sosc_base;

	own_headers[0] = (Elf64_Phdr){.p_type = PT_LOAD,
				      .p_flags = PF_R | PF_X,
				      .p_filesz = SOSC_BLOB_DATA,
				      .p_memsz = SOSC_BLOB_DATA,
				      .p_align = SOSC_PAGE};
	own_headers[1] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME,
				      .p_flags = PF_R,
				      .p_vaddr = table,
				      .p_memsz = SOSC_BLOB_TEXT_MAX - table,
				      .p_align = 4};
	find_original = (find_function *)sosc_function_addr(0, "_dl_find_object");
	iterate_original = (sosc_iterate *)sosc_function_addr(0, "dl_iterate_phdr");
	if (writes_return_addresses())
		sosc_instruments_see_no_exits();
}

static bool imports_unwinder(const struct sosc_loaded *image)
{
	return sosc_imports(image, "_Unwind_") || sosc_imports(image, "_dl_find_object");
}

static void answer(struct sosc_loaded *image, const char *name, uint64_t with)
{
	for (int table = 0; table < 2; table++) {
		const Elf64_Rela *rela = table ? image->rela : image->jmprel;
		uint64_t count = table ? image->relacount : image->jmprelcount;

		for (uint64_t i = 0; i < count; i++) {
			uint64_t type = ELF64_R_TYPE(rela[i].r_info);
			uint64_t addr = image->bias + rela[i].r_offset;

			if ((type != SOSC_RELOCATION_JUMP_SLOT &&
			     type != SOSC_RELOCATION_GLOB_DAT) ||
			    addr < image->start || addr + 8 > image->end ||
			    !sosc_same(sosc_symbol_name(image,
							(uint32_t)ELF64_R_SYM(rela[i].r_info)),
				       name))
				continue;
			if (*(uint64_t *)addr) // a weak reference may be unbound
				(void)sosc_change_word(image, addr, with);
		}
	}
}

// Returns what replaces dl_iterate_phdr in namespace @ns, 0 if nothing can. The C library shows its
// callers the images of their own namespace, which it finds by the return address. So in other
// namespaces the call has to go on as the caller's own call, and the agent comes first.
static uint64_t iterate_of(uint32_t ns)
{
	static uint32_t cells[SOSC_NAMESPACES];
	uint64_t original;

	if (!ns)
		return iterate_original ? (uint64_t)iterate : 0;
	original = sosc_function_addr(ns, "dl_iterate_phdr");
	if (!original)
		return 0;
	if (!cells[ns])
		cells[ns] = sosc_cell_take();
	if (cells[ns] == SOSC_NONE) {
		cells[ns] = 0;
		return 0;
	}
	sosc_cells[cells[ns]].original = original;
	sosc_cells[cells[ns]].handler = (uint64_t)sosc_h_iterate;
	return sosc_entry_of(cells[ns]);
}

/**
 * Answer for the trampolines in @image, whose slots are writable now. dl_iterate_phdr is hooked
 * only if the image contains its own unwinder. An image that calls it for other purposes would see
 * one image too many.
 */
void sosc_unwind_hook(struct sosc_loaded *image)
{
	uint64_t with = iterate_of(image->ns);

	if (!sosc_session->plans)
		return; // no calls go through trampolines
	sosc_unwinder_learn(image);
	if (find_original)
		answer(image, "_dl_find_object", (uint64_t)find_object);
	if (with && !imports_unwinder(image))
		answer(image, "dl_iterate_phdr", with);
}
