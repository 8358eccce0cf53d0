// SPDX-License-Identifier: Apache-2.0
// loads LIBRARY: for each function of LIBRARY that its symbol table calls only_*,
// keep_* or any_*, what the agent says of each use of `callee`'s slot; then re-aims
// what it takes for calls and runs every function. A line each:
//
//	use FUNCTION call|jump|load|called
//	run FUNCTION BEFORE AFTER CALLS
//
// BEFORE and AFTER are results: what a function sees of the address must not change.
// CALLS is how often the cell was called through afterwards.
#include "host.h"

#include "image/image.h"
#include "image/loads.h"
#include "hook/scan.h"
#include "hook/shadow.h"

#include <dlfcn.h>
#include <string.h>

static struct sosc_loaded image;
static long (*original)(long);
static long calls;

static long counting(long x)
{
	calls++;
	return original(x);
}

static int fill(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	if (info->dlpi_addr != image.bias)
		return 0;
	image.phdr = info->dlpi_phdr;
	image.phnum = info->dlpi_phnum;
	image.end = image.start = image.bias;
	for (uint32_t i = 0; i < image.phnum; i++)
		if (image.phdr[i].p_type == PT_LOAD)
			image.end = image.bias + image.phdr[i].p_vaddr + image.phdr[i].p_memsz;
	*(bool *)data = true;
	return 1;
}

static uint64_t slot_of(const char *name, const struct link_map *map)
{
	const Elf64_Rela *rela = NULL;
	const Elf64_Sym *symtab = NULL;
	const char *strtab = NULL;
	uint64_t count = 0;

	for (const Elf64_Dyn *dyn = map->l_ld; dyn->d_tag; dyn++) {
		if (dyn->d_tag == DT_RELA)
			rela = (const void *)dyn->d_un.d_ptr;
		else if (dyn->d_tag == DT_RELASZ)
			count = dyn->d_un.d_val / sizeof(*rela);
		else if (dyn->d_tag == DT_SYMTAB)
			symtab = (const void *)dyn->d_un.d_ptr;
		else if (dyn->d_tag == DT_STRTAB)
			strtab = (const void *)dyn->d_un.d_ptr;
	}
	for (uint64_t i = 0; i < count; i++)
		if (ELF64_R_TYPE(rela[i].r_info) == R_X86_64_GLOB_DAT &&
		    !strcmp(strtab + symtab[ELF64_R_SYM(rela[i].r_info)].st_name, name))
			return map->l_addr + rela[i].r_offset;
	return 0;
}

// The function whose code has @addr, by the dynamic symbols.
static const char *function_of(uint64_t addr)
{
	Dl_info info;

	return dladdr((void *)addr, &info) && info.dli_sname ? info.dli_sname : "?";
}

static void show_uses(uint64_t slot)
{
	for (uint32_t i = 0; i < image.phnum; i++) {
		uint64_t start = image.bias + image.phdr[i].p_vaddr;
		uint64_t end = start + image.phdr[i].p_filesz;

		if (image.phdr[i].p_type != PT_LOAD || !(image.phdr[i].p_flags & PF_X))
			continue;
		for (uint64_t at = start + 6; at + 4 <= end; at++) {
			const uint8_t *code = (const uint8_t *)at;
			int32_t displacement;

			memcpy(&displacement, code, 4);
			if (at + 4 + (uint64_t)(int64_t)displacement != slot)
				continue;
			printf("use %s %s\n", function_of(at),
			       code[-2] == 0xff && code[-1] == 0x15 ? "call" :
			       code[-2] == 0xff && code[-1] == 0x25 ? "jump" :
			       sosc_load_is_called(&image, at)	    ? "called" :
								      "load");
		}
	}
}

enum { NAMES = 1024 };

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	struct sosc_scanned scanned = {0};
	struct sosc_scan scan = {.image = &image, .slots = &scanned, .count = 1};
	const struct link_map *map;
	uint64_t shadow = 0, slot;
	static char names[NAMES][64];
	static long before[NAMES];
	int count = 0;
	void (*reset)(void);
	bool found = false;
	FILE *list = fopen(argv[2], "r");

	CHECK(argc == 3 && list);
	if (!library)
		puts(dlerror());
	CHECK(library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
	reset = (void (*)(void))dlsym(library, "reset");
	CHECK(reset);
	host_control(SOSC_INSTRUMENT_COUNT, 1);
	image.bias = map->l_addr;
	dl_iterate_phdr(fill, &found);
	CHECK(found);
	slot = slot_of("callee", map);
	CHECK(slot);
	show_uses(slot);
	scanned.addr = slot;
	sosc_scan_sort(&scan);
	CHECK(sosc_scan_text(&scan, 0));
	printf("uses %u\n", scanned.uses);
	while (count < NAMES && fscanf(list, "%63s", names[count]) == 1) {
		long (*function)(long) = (long (*)(long))dlsym(library, names[count]);

		CHECK(function);
		reset();
		before[count++] = function(3);
	}
	original = (long (*)(long)) * (uint64_t *)slot;
	shadow = sosc_shadow_cell(&image, slot);
	CHECK(shadow && sosc_shadow_cell(&image, slot) == shadow);
	*(uint64_t *)shadow = (uint64_t)counting;
	printf("sites %u\n", sosc_scan_sites(&scan, &scanned, shadow));
	for (int i = 0; i < count; i++) {
		long (*function)(long) = (long (*)(long))dlsym(library, names[i]);
		long after;

		reset();
		calls = 0;
		after = function(3);
		printf("run %s %lx %lx %ld\n", names[i], (unsigned long)before[i],
		       (unsigned long)after, calls);
	}
	return 0;
}
