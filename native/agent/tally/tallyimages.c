// SPDX-License-Identifier: Apache-2.0
// The images of a program that counts its own calls: the loader's list, and what is read from each
// image.

#include "image/lookup.h"
#include "tally/tallyslots.h"

struct sosc_tally_image sosc_tally_images[TALLY_IMAGES_MAX];
uint32_t sosc_tally_image_count;
uint32_t sosc_tally_sqlites;

/** Return the image that contains an address, or NULL. */
struct sosc_tally_image *sosc_tally_image_at(uint64_t addr)
{
	for (uint32_t i = 0; i < sosc_tally_image_count; i++) {
		const struct sosc_loaded *loaded = &sosc_tally_images[i].loaded;

		if (loaded->map && addr - loaded->start < loaded->end - loaded->start)
			return &sosc_tally_images[i];
	}
	return NULL;
}

static bool is_same(const struct sosc_loaded *loaded, const struct link_map *map)
{
	return loaded->map == map && loaded->bias == map->l_addr && loaded->dynamic == map->l_ld;
}

static struct sosc_tally_image *place_for(struct link_map *map)
{
	struct sosc_tally_image *free = NULL;

	for (uint32_t i = 0; i < sosc_tally_image_count; i++) {
		if (is_same(&sosc_tally_images[i].loaded, map))
			return &sosc_tally_images[i];
		if (!sosc_tally_images[i].loaded.map)
			free = &sosc_tally_images[i];
	}
	if (!free && sosc_tally_image_count < TALLY_IMAGES_MAX)
		free = &sosc_tally_images[sosc_tally_image_count++];
	if (!free) {
		sosc_tally_leave_image(map->l_name, SOSC_TALLY_FULL);
		return NULL;
	}
	memset(free, 0, sizeof(*free));
	free->loaded.map = map;
	if (sosc_image_parse(&free->loaded, NULL) == 0)
		return free;
	free->loaded.map = NULL;
	return NULL;
}

static uint64_t symbol_of(const struct sosc_loaded *image, const char *name)
{
	const Elf64_Sym *symbol = sosc_lookup(image, name, sosc_gnu_hash(name), NULL);

	return symbol ? image->bias + symbol->st_value : 0;
}

// Finds the functions that are asked about blocks and statements. If there are several allocators
// or SQLites, none is asked.
static void learn_rules(const struct sosc_loaded *image, uint64_t usable, uint32_t *allocators)
{
	uint64_t busy = symbol_of(image, "sqlite3_stmt_busy");
	uint64_t text = symbol_of(image, "sqlite3_sql");

	*allocators += symbol_of(image, "malloc") != 0;
	if (usable - image->start < image->end - image->start) {
		sosc_tally_rules.allocator = image->start;
		sosc_tally_rules.allocator_end = image->end;
	}
	if (!busy || !text)
		return;
	if (sosc_tally_sqlites++)
		busy = text = 0;
	memcpy(&sosc_tally_rules.step_is_busy, &busy, sizeof(busy));
	memcpy(&sosc_tally_rules.step_text, &text, sizeof(text));
}

/**
 * Read the loader's list, of which @first is the program. @usable: address of malloc_usable_size.
 */
void sosc_tally_list_images(struct link_map *first, uint64_t usable)
{
	uint32_t allocators = 0;

	sosc_tally_sqlites = 0;
	sosc_tally_rules.allocator = sosc_tally_rules.allocator_end = 0;
	sosc_tally_rules.step_is_busy = NULL;
	for (uint32_t i = 0; i < sosc_tally_image_count; i++)
		sosc_tally_images[i].is_here = false;
	for (struct link_map *map = first; map; map = map->l_next) {
		struct sosc_tally_image *at = place_for(map);

		if (!at)
			continue;
		at->is_here = true;
		learn_rules(&at->loaded, usable, &allocators);
	}
	for (uint32_t i = 0; i < sosc_tally_image_count; i++)
		if (!sosc_tally_images[i].is_here)
			sosc_tally_images[i].loaded.map = NULL;
	sosc_tally_rules.is_one_allocator = allocators == 1;
}

/**
 * Return whether a value is a stub of the program itself that other images use as the address of
 * function @name (a canonical PLT entry). Such a call is counted when it goes through the program's
 * slot.
 */
bool sosc_tally_is_canonical(uint64_t value, const char *name)
{
	const struct sosc_tally_image *at = sosc_tally_image_at(value);
	const struct sosc_loaded *image = at ? &at->loaded : NULL;

	if (!image || image->bias || !image->jmprel)
		return false;
	for (uint64_t i = 0; i < image->jmprelcount; i++) {
		uint32_t symbol = (uint32_t)ELF64_R_SYM(image->jmprel[i].r_info);

		if (image->symtab[symbol].st_value == value &&
		    image->symtab[symbol].st_shndx == SHN_UNDEF &&
		    sosc_same(sosc_symbol_name(image, symbol), name))
			return true;
	}
	return false;
}
