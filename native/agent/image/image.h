// SPDX-License-Identifier: Apache-2.0
/** Images, as described by the loader's list, their program headers and their dynamic section. */
#ifndef SOSC_IMAGE_H
#define SOSC_IMAGE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded { // an image of the link map, while it is loaded
	struct link_map *map; // NULL = this entry is free
	uint64_t bias;
	uint64_t start, end; // addr
	const Elf64_Phdr *phdr;
	uint32_t phnum;
	uint32_t index; // in SEC_IMAGES
	const Elf64_Dyn *dynamic;
	const Elf64_Sym *symtab;
	const char *strtab;
	uint64_t strsz;
	const Elf64_Half *versym;
	const uint8_t *verneed, *verdef;
	uint64_t verneednum, verdefnum;
	const uint32_t *gnu_hash, *sysv_hash;
	const Elf64_Rela *rela, *jmprel;
	uint64_t relacount, jmprelcount;
	uint64_t *pltgot;
	const char *name; // soname, else file name
	const char *path;
	uint64_t relro_start, relro_end; // addr, whole pages
	uint64_t init_dyn; // saved l_info[DT_INIT] while the init cell replaces it
	uint32_t init_cell; // index of the init cell, or SOSC_NONE
	uint8_t build_id[32];
	uint8_t build_id_size; // if 0, build_id begins with two checksums instead
	uint32_t identity; // a hash of the image's path, namespace and build-id
	uint32_t ns; // number of its namespace
	uint32_t slots_hooked, slots_left, slots_refused; // so far
	bool main, loader, hooked, seen;
	bool waits; // waits for soscope_agent_hook
	bool fresh; // just loaded, not handled yet
	bool asked; // soscope was asked about its functions, and is not asked again
	bool told_apart; // another image was at its addresses before: addresses need its number
	uint8_t described; // enum sosc_described
};

extern struct sosc_loaded sosc_loaded[SOSC_MAX_IMAGES];
extern uint32_t sosc_loaded_count;

int sosc_image_parse(struct sosc_loaded *image, const struct sosc_start *start);
uint64_t sosc_dynamic_addr(const struct sosc_loaded *image, uint64_t value);
int sosc_segment_flags(const struct sosc_loaded *image, uint64_t addr);
bool sosc_addr_executable(const struct sosc_loaded *image, uint64_t addr);
bool sosc_code_readable(const struct sosc_loaded *image, uint64_t addr);
const uint8_t *sosc_readable_until(const struct sosc_loaded *image, const uint8_t *addr);
bool sosc_is_code_of(const struct sosc_loaded *image, uint64_t start, uint64_t end);
struct sosc_loaded *sosc_image_of(uint64_t addr);

#pragma GCC visibility pop

#endif
