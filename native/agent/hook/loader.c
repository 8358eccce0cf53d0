// SPDX-License-Identifier: Apache-2.0
// Images that are loaded and unloaded. The loader calls its r_brk function whenever its list
// changes, on the loading thread and under its own lock. The agent has replaced that function's
// first bytes by a jump to this file. Nothing is allocated and no lock is taken.
//
// glibc 2.41 and newer call r_brk after new images are relocated and before their constructors run,
// so the images are hooked at once. Older versions call it before relocation. Then the image's
// DT_INIT is replaced by a cell of the agent (in the loader's own table of dynamic entries), which
// hooks the image when the loader initialises it.

#include "hook/loader.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/state.h"
#include "base/sys.h"
#include "call/cell.h"
#include "call/handler.h"
#include "call/site.h"
#include "hook/backtrace.h"
#include "hook/hook.h"
#include "hook/patch.h"
#include "hook/turns.h"
#include "hook/unwind.h"
#include "image/changes.h"
#include "image/image.h"
#include "image/lookup.h"
#include "image/namespace.h"
#include "ring/asksoscope.h"
#include "ring/record.h"
#include "stack/unwindrules.h"
#include "stack/walk.h"
#include "thread/thread.h"

enum {
	L_INFO = 8, // struct link_map: words before l_info (glibc 2.26 to 2.44)
};

static uint64_t loader_bias;
static uint64_t removing; // tsc when the loader began to unload images, 0 if it is not unloading
// musl reports its list as consistent only when everything is relocated
static bool relocates_first;
static Elf64_Dyn init_entries[SOSC_MAX_IMAGES]; // same indices as sosc_loaded

static Elf64_Dyn **info(const struct link_map *map, int tag)
{
	return (Elf64_Dyn **)map + L_INFO + tag;
}

// Returns whether l_info is where it is expected. It is private to glibc, so it is trusted only if
// a known entry is right.
static bool has_info(const struct sosc_loaded *image)
{
	const Elf64_Dyn *strtab = *info(image->map, DT_STRTAB);
	const Elf64_Dyn *dyn = image->dynamic;

	for (; dyn->d_tag != DT_NULL; dyn++)
		if (dyn->d_tag == DT_STRTAB)
			return strtab == dyn;
	return false;
}

static bool in_range(uint64_t value, uint64_t start, uint64_t size)
{
	return value - start < size;
}

// Returns whether the image is certainly relocated. If it is not, or that is not known, it is
// hooked by its DT_INIT. That is not known if the load bias is 0, as for prelinked images at their
// intended address.
static bool is_relocated(const struct sosc_loaded *image)
{
	uint64_t size = image->end - image->start, array = 0;

	if (relocates_first)
		return true;
	if (!image->bias)
		return false;
	for (const Elf64_Dyn *dyn = image->dynamic; dyn->d_tag != DT_NULL; dyn++)
		if (dyn->d_tag == DT_INIT_ARRAY)
			array = sosc_dynamic_addr(image, dyn->d_un.d_ptr);
	if (array) // its first entry is a function of the image itself
		return in_range(*(const uint64_t *)array, image->start, size);
	for (uint64_t i = 0; i < image->relacount; i++)
		if (ELF64_R_TYPE(image->rela[i].r_info) == SOSC_RELOCATION_RELATIVE)
			return *(const uint64_t *)(image->bias + image->rela[i].r_offset) ==
			       image->bias + (uint64_t)image->rela[i].r_addend;
	if (image->pltgot && image->pltgot[2])
		return true; // the loader has prepared it for lazy binding
	for (uint64_t i = 0; i < image->jmprelcount; i++) {
		uint64_t value = *(const uint64_t *)(image->bias + image->jmprel[i].r_offset);

		return value && !in_range(value, image->start - image->bias, size);
	}
	return false;
}

static void arm_init(struct sosc_loaded *image)
{
	uint32_t place = (uint32_t)(image - sosc_loaded);
	Elf64_Dyn **init = info(image->map, DT_INIT);
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);
	uint32_t cell;

	if (!has_info(image) || (cell = sosc_cell_take()) == SOSC_NONE) {
		if (image->index != SOSC_NONE)
			images[image->index].flags |= SOSC_IMAGE_LATE;
		return;
	}
	sosc_cells[cell].handler = (uint64_t)sosc_h_init;
	sosc_cells[cell].original = place;
	image->init_cell = cell;
	image->init_dyn = (uint64_t)*init;
	init_entries[place].d_tag = DT_INIT;
	init_entries[place].d_un.d_ptr = sosc_entry_of(cell) - image->bias;
	*init = &init_entries[place];
}

static void disarm_init(struct sosc_loaded *image)
{
	if (image->init_cell == SOSC_NONE)
		return;
	sosc_cell_give(image->init_cell);
	image->init_cell = SOSC_NONE;
}

// Returns whether recording has ended. soscope may be gone, and new images only get the patches
// that are in force.
static bool has_ended(void)
{
	return sosc_control->command == SOSC_COMMAND_STOP;
}

// Returns whether this is a child that is not followed: the tables of records belong to its parent.
static bool is_unrecorded(void)
{
	return sosc_is_quiet() && !has_ended();
}

// Returns whether new images have to be looked at.
static bool wants_looks(void)
{
	return !has_ended() || sosc_patches_stand();
}

static void hook_new(struct sosc_loaded *image)
{
	sosc_patches_find();
	if (has_ended()) {
		sosc_image_patch(image);
		return;
	}
	// calls made before the fork may be on its stacks, and return through trampolines
	if (is_unrecorded()) {
		sosc_image_wait(image);
		image->waits = false;
		if (sosc_patches_stand())
			sosc_image_patch(image);
		return;
	}
	if (!sosc_turns_hold()) {
		sosc_may_ask = true;
		sosc_image_hook(image, false);
		sosc_may_ask = false;
		return;
	}
	sosc_image_wait(image);
	sosc_turns_count();
}

// Adds the time that hooking images has taken since @start. The loader's lock is held.
static void count_ticks(uint64_t start, uint32_t process)
{
	if (!is_unrecorded() && sosc_process() == process)
		__atomic_fetch_add(&sosc_control->took_images, sosc_ticks_since(start),
				   __ATOMIC_RELAXED);
}

// The loader calls this as DT_INIT of the image to which @cell belongs. The image is relocated, and
// none of its code has run. Returns the image's own DT_INIT function, or 0.
uint64_t sosc_image_init(struct sosc_cell *cell)
{
	struct sosc_loaded *image = &sosc_loaded[cell->original];
	Elf64_Dyn *own = (Elf64_Dyn *)image->init_dyn;

	*info(image->map, DT_INIT) = own;
	disarm_init(image);
	if (wants_looks()) {
		uint64_t start = sosc_ticks();
		uint32_t process = sosc_process();

		hook_new(image);
		count_ticks(start, process);
	}
	return own ? image->bias + own->d_un.d_ptr : 0;
}

static struct sosc_loaded *place_for(void)
{
	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		if (!sosc_loaded[i].map)
			return &sosc_loaded[i];
	if (sosc_loaded_count == SOSC_MAX_IMAGES)
		return NULL;
	return &sosc_loaded[sosc_loaded_count++];
}

static struct sosc_loaded *known(const struct link_map *map, uint32_t ns)
{
	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		if (sosc_loaded[i].map == map && sosc_loaded[i].ns == ns)
			return &sosc_loaded[i];
	return NULL;
}

// Returns the index of the loader's record: the lists of other namespaces have a link_map for the
// loader, too.
static uint32_t index_of_loader(const struct sosc_loaded *image)
{
	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		if (&sosc_loaded[i] != image && sosc_loaded[i].map && sosc_loaded[i].loader &&
		    sosc_loaded[i].bias == image->bias)
			return sosc_loaded[i].index;
	return SOSC_NONE;
}

static struct sosc_loaded *add(struct link_map *map, const struct sosc_start *start, uint32_t ns)
{
	struct sosc_loaded *image = place_for();
	uint32_t flags = start ? SOSC_IMAGE_STARTUP : 0;

	if (!image) {
		if (!is_unrecorded())
			__atomic_fetch_add(&sosc_control->images_dropped, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	memset(image, 0, sizeof(*image));
	image->map = map;
	image->ns = ns;
	image->main = image == &sosc_loaded[0];
	if (start && ns) // it belongs to the namespace of an auditor, and runs already
		flags |= SOSC_IMAGE_LATE;
	if (sosc_image_parse(image, start) != 0)
		flags |= SOSC_IMAGE_UNREADABLE;
	// the loader, or the agent itself if it was loaded as a library; both are in the list of
	// every namespace that needs them
	image->loader = !image->main && (image->bias == loader_bias || image->bias == sosc_base);
	image->seen = true;
	image->index = SOSC_NONE;
	if (!start && (is_unrecorded() || has_ended()))
		return image;
	if (image->loader && (image->index = index_of_loader(image)) != SOSC_NONE)
		return image;
	sosc_image_record(image, flags);
	if (!start)
		sosc_rules_renew(); // return addresses outside all images may lie in this image now
	return image;
}

static void forget(struct sosc_loaded *image)
{
	disarm_init(image); // it is still armed if loading the image failed
	sosc_turns_forget(image);
	sosc_unwinder_forget(image);
	sosc_changes_forget(image);
	sosc_patches_lose(image);
	if (!is_unrecorded() && !has_ended()) {
		sosc_image_closed(image, removing);
		sosc_instruments_closed(image);
	}
	sosc_stacks_forget(image);
	image->map = NULL;
	sosc_rules_forget();
}

static bool wants_hooks(const struct sosc_loaded *image)
{
	return image && !image->loader && image->symtab && image->strtab;
}

// Handles images that were loaded or unloaded in namespace @ns, whose list begins with @first.
static void look_at(uint32_t ns, struct link_map *first)
{
	struct link_map *map;

	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		sosc_loaded[i].seen = sosc_loaded[i].ns != ns;
	for (map = first; map; map = map->l_next) {
		struct sosc_loaded *image = known(map, ns);

		// the address of a link_map may be reused for another image
		if (image && image->bias == map->l_addr && image->dynamic == map->l_ld)
			image->seen = true;
	}
	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		if (sosc_loaded[i].map && !sosc_loaded[i].seen)
			forget(&sosc_loaded[i]);
	sosc_patches_find();
	// adds all of them first: the libraries that a library needs come after it in the list, and
	// are its callees
	for (map = wants_looks() ? first : NULL; map; map = map->l_next) {
		struct sosc_loaded *image = known(map, ns);

		if (!image && (image = add(map, NULL, ns)))
			image->fresh = true;
	}
	for (map = first; map; map = map->l_next) {
		struct sosc_loaded *image = known(map, ns);

		if (!image || !image->fresh)
			continue;
		image->fresh = false;
		if (!wants_hooks(image))
			continue;
		if (is_relocated(image))
			hook_new(image);
		else
			arm_init(image);
	}
}

// The list of some namespace is consistent: handle what was loaded and unloaded. The list of
// another namespace may be in the middle of a change, and its own event will follow.
void sosc_loader_changed(void)
{
	struct sosc_namespace all[SOSC_NAMESPACES];
	uint32_t count = sosc_namespaces(all), process = sosc_process();
	uint64_t start = sosc_ticks();
	bool remove = false;

	for (uint32_t ns = 0; ns < count; ns++)
		remove |= all[ns].removes;
	if (remove) {
		sosc_rules_hold(true);
		removing = sosc_ticks();
	}
	for (uint32_t ns = 0; ns < count; ns++)
		if (all[ns].consistent)
			look_at(ns, all[ns].first);
	if (!remove) {
		sosc_rules_hold(false);
		removing = 0;
	}
	count_ticks(start, process);
}

/** Record and hook the images that are loaded before any code has run. */
int sosc_images_start(const struct sosc_start *start)
{
	static const char libc_function[] = "__libc_start_main";
	const struct r_debug *r_debug = (const struct r_debug *)start->r_debug;
	struct sosc_namespace all[SOSC_NAMESPACES];
	const struct sosc_loaded *loader = NULL;
	uint32_t count;

	memset(sosc_loaded, 0, sosc_loaded_count * sizeof(sosc_loaded[0]));
	sosc_loaded_count = 0;
	sosc_unwinders_forget();
	sosc_rules_forget();
	sosc_rules_hold(false);
	sosc_images_again();
	loader_bias = start->loader;
	sosc_namespaces_init(r_debug, NULL);
	(void)sosc_namespaces(all);
	for (struct link_map *map = all[0].first; map; map = map->l_next)
		(void)add(map, start, 0);
	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		if (sosc_loaded[i].loader && sosc_loaded[i].bias == loader_bias)
			loader = &sosc_loaded[i];
	relocates_first = loader &&
			  sosc_lookup(loader, libc_function, sosc_gnu_hash(libc_function), NULL);
	sosc_namespaces_init(r_debug, loader);
	count = sosc_namespaces(all);
	for (uint32_t ns = 1; ns < count; ns++)
		for (struct link_map *map = all[ns].first; map; map = map->l_next)
			(void)add(map, start, ns);
	sosc_changes_again();
	sosc_unwind_init();
	sosc_turns_begin();
	for (uint32_t i = 0; i < sosc_loaded_count; i++) {
		if (!wants_hooks(&sosc_loaded[i]))
			continue;
		if (start->flags & SOSC_START_TURNS)
			sosc_image_wait(&sosc_loaded[i]);
		else
			sosc_image_hook(&sosc_loaded[i], true);
	}
	sosc_turns_count();
	sosc_sites_refresh();
	return sosc_loaded_count ? 0 : -EINVAL;
}
