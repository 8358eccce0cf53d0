// SPDX-License-Identifier: Apache-2.0
// rules LIBRARY: for each link-time address on standard input, what holds there: a line
//
//	ADDR KIND BYTES FP
//
// as unwindrules.h has it, BYTES from the CFA's base and FP words in front of the CFA.
#include "host.h"

#include "image/image.h"
#include "stack/unwindrules.h"

#include <dlfcn.h>

static int fill(struct dl_phdr_info *info, size_t size, void *data)
{
	struct sosc_loaded *image = &sosc_loaded[0];

	(void)size;
	if (info->dlpi_addr != *(uint64_t *)data)
		return 0;
	image->bias = info->dlpi_addr;
	image->phdr = info->dlpi_phdr;
	image->phnum = info->dlpi_phnum;
	image->start = UINT64_MAX;
	for (uint32_t i = 0; i < image->phnum; i++) {
		uint64_t start = image->bias + image->phdr[i].p_vaddr;

		if (image->phdr[i].p_type != PT_LOAD)
			continue;
		if (start < image->start)
			image->start = start;
		image->end = start + image->phdr[i].p_memsz;
	}
	sosc_loaded_count = 1;
	return 1;
}

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_LAZY);
	struct link_map *map;
	unsigned long vaddr;

	CHECK(argc == 2 && library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
	sosc_loaded[0].map = map;
	CHECK(dl_iterate_phdr(fill, &map->l_addr));
	while (scanf("%lx", &vaddr) == 1) {
		uint64_t addr = map->l_addr + vaddr;
		uint32_t rule = sosc_rule_interrupted(addr, false);
		long words = (long)(rule >> RULE_BYTES & RULE_BYTES_MASK) - RULE_MIDDLE;

		printf("%lx %u %ld %u\n", vaddr, rule >> RULE_KIND, words * 8, rule & RULE_FP_MASK);
		// the same, as a return address: once read, and then out of the cache
		rule = sosc_rule_of(addr, false);
		CHECK(rule == sosc_rule_of(addr, false));
		if (rule && rule >> RULE_KIND != RULE_SIGNAL)
			CHECK(rule == sosc_rule_interrupted(addr - 1, false));
	}
	sosc_rules_forget();
	for (uint32_t i = 0; i < 2 << RULE_PAIR_BITS; i++)
		CHECK(!sosc_rules[i]);
	return 0;
}
