// SPDX-License-Identifier: Apache-2.0
// lookup: every symbol of every image of this process, as the agent finds it and as dlsym and
// dlvsym do.
#include "host.h"

#include "image/image.h"
#include "image/lookup.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>

static uint32_t symbol_count(const struct sosc_loaded *image)
{
	const uint32_t *table = image->gnu_hash, *bucket, *chain;
	uint32_t last = 0;

	if (!table)
		return image->sysv_hash ? image->sysv_hash[1] : 0;
	bucket = table + 4 + 2 * table[2];
	chain = bucket + table[0];
	for (uint32_t i = 0; i < table[0]; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last)
		while (!(chain[last - table[1]] & 1))
			last++;
	return last + 1;
}

// 1: compared, 0: nothing to compare
static int compare(const struct sosc_loaded *image, void *handle, uint32_t number)
{
	const Elf64_Sym *sym = &image->symtab[number], *found;
	const char *name = sosc_symbol_name(image, number);
	const char *version = sosc_symbol_version(image, number);
	uint32_t hash = sosc_gnu_hash(name);
	void *there;

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || !sym->st_value || !*name ||
	    ELF64_ST_BIND(sym->st_info) == STB_LOCAL || ELF64_ST_TYPE(sym->st_info) == STT_TLS)
		return 0;
	found = sosc_lookup(image, name, hash, version);
	if (!found || found->st_value != sym->st_value)
		printf("%s: %s@%s: own version not found\n", image->path, name,
		       version ? version : "");
	there = version ? dlvsym(handle, name, version) : dlsym(handle, name);
	if (ELF64_ST_TYPE(sym->st_info) != STT_GNU_IFUNC && found &&
	    there != (void *)(image->bias + found->st_value))
		printf("%s: %s@%s: %p, not %lx\n", image->path, name, version ? version : "", there,
		       image->bias + found->st_value);
	found = sosc_lookup(image, name, hash, NULL);
	there = dlsym(handle, name);
	// dlsym knows the newest of several hidden versions; a slot without a version asks
	// for the base one, and never for those
	if (found && ELF64_ST_TYPE(found->st_info) != STT_GNU_IFUNC &&
	    there != (void *)(image->bias + found->st_value))
		printf("%s: %s: %p, not %lx\n", image->path, name, there,
		       image->bias + found->st_value);
	if (!found && !(image->versym[number] & 0x8000))
		printf("%s: %s: not found\n", image->path, name);
	CHECK(!sosc_lookup(image, name, hash, "NO_SUCH_VERSION") || !version);
	return 1;
}

static void absent(const struct sosc_loaded *image)
{
	uint64_t seed = 88172645463325252ull;

	for (int i = 0; i < 2000; i++) {
		char name[24];

		snprintf(name, sizeof(name), "no_%lx", host_random(&seed));
		CHECK(!sosc_lookup(image, name, sosc_gnu_hash(name), NULL));
	}
}

int main(int argc, char **argv)
{
	struct sosc_start start = {.phdr = getauxval(AT_PHDR), .phnum = getauxval(AT_PHNUM)};
	struct link_map *map;
	uint32_t compared = 0;

	host_control(SOSC_INSTRUMENT_COUNT, 1);
	for (int i = 1; i < argc; i++)
		CHECK(dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL));
	CHECK(dlinfo(dlopen(NULL, RTLD_NOW), RTLD_DI_LINKMAP, &map) == 0);
	for (bool first = true; map; map = map->l_next, first = false) {
		struct sosc_loaded *image = &sosc_loaded[sosc_loaded_count++];

		image->map = map;
		image->main = first;
		CHECK(sosc_image_parse(image, first ? &start : NULL) == 0);
		CHECK(image->symtab && image->strtab && image->start < image->end);
		CHECK(sosc_image_of((uint64_t)map->l_ld) == image);
	}
	for (uint32_t i = 0; i < sosc_loaded_count; i++) {
		struct sosc_loaded *image = &sosc_loaded[i], *provider;
		void *handle = dlopen(image->path, RTLD_NOW | RTLD_NOLOAD);

		absent(image);
		if (!handle || image->main || strstr(image->path, "/ld-"))
			continue; // the vDSO; the loader, of which dlsym says nothing
		for (uint32_t s = 1; s < symbol_count(image); s++) {
			const char *name = sosc_symbol_name(image, s);

			compared += (uint32_t)compare(image, handle, s);
			// the first in the order of the link map, as the loader has it
			if (sosc_lookup_all(0, name, sosc_symbol_version(image, s), &provider))
				CHECK(provider <= image || image->symtab[s].st_shndx == SHN_UNDEF ||
				      !image->symtab[s].st_value);
		}
	}
	fprintf(stderr, "%u\n", compared);
	return compared > 3000 ? 0 : 1;
}
