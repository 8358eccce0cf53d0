/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process with code that it made at run time and more names for it than anybody reads. The
 * argument says how: "list" (65,536 entries of one file of 2,700 symbols in the list that
 * __jit_debug_descriptor leads to). Prints "ready", and ends with 7 when a line comes.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ENTRIES = 1 << 16, SIZE = 1 << 16, SYMBOLS_AT = 512, NAMES_AT = 300 };

struct entry {
	struct entry *next, *previous;
	const char *file;
	uint64_t size;
};

struct {
	uint32_t version, action;
	struct entry *relevant, *first;
} __jit_debug_descriptor = {1, 0, NULL, NULL};

static char file[SIZE];

static void write_file(void)
{
	Elf64_Ehdr *header = (Elf64_Ehdr *)file;
	Elf64_Shdr *sections = (Elf64_Shdr *)(file + sizeof(*header));
	Elf64_Sym *symbols = (Elf64_Sym *)(file + SYMBOLS_AT);
	size_t count = (SIZE - SYMBOLS_AT) / sizeof(*symbols);

	memcpy(header->e_ident, ELFMAG "\2\1\1", 7);
	header->e_type = ET_EXEC;
	header->e_machine = EM_X86_64;
	header->e_version = 1;
	header->e_shoff = sizeof(*header);
	header->e_ehsize = sizeof(*header);
	header->e_shentsize = sizeof(*sections);
	header->e_shnum = 3;
	sections[1].sh_type = SHT_SYMTAB;
	sections[1].sh_offset = SYMBOLS_AT;
	sections[1].sh_size = count * sizeof(*symbols);
	sections[1].sh_entsize = sizeof(*symbols);
	sections[1].sh_link = 2;
	sections[2].sh_type = SHT_STRTAB;
	sections[2].sh_offset = NAMES_AT;
	sections[2].sh_size = 100;
	memcpy(file + NAMES_AT, "\0made", 6);
	for (size_t i = 0; i < count; i++) {
		symbols[i].st_name = 1;
		symbols[i].st_info = STT_FUNC;
		symbols[i].st_shndx = 1;
		symbols[i].st_value = 0x10000000 + i * 32;
		symbols[i].st_size = 32;
	}
}

int main(void)
{
	struct entry *entries = calloc(ENTRIES, sizeof(*entries));
	char line[16];

	if (!entries)
		return 9;
	write_file();
	for (int i = 0; i < ENTRIES; i++) {
		entries[i].next = i + 1 < ENTRIES ? &entries[i + 1] : NULL;
		entries[i].file = file;
		entries[i].size = SIZE;
	}
	__jit_debug_descriptor.first = entries;
	puts("ready");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) ? 7 : 8;
}
