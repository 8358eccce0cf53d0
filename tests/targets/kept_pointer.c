// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fno-builtin; ldflags=-Wl,-z,now
// Copies what its slot of strlen holds at "k", and calls through all copies at each line. It says
// how many there are, and what is wrong.
#include <link.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

typedef size_t length(const char *text);

static length *copies[MOST];
static int count;

// An entry of the dynamic section; glibc has added where the program lies.
static const void *entry(ElfW(Sxword) tag)
{
	for (const ElfW(Dyn) *dynamic = _DYNAMIC; dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == tag)
			return (const void *)dynamic->d_un.d_ptr;
	return NULL;
}

static length *copy_from(ElfW(Sxword) table, ElfW(Sxword) size, ElfW(Addr) bias)
{
	const ElfW(Rela) *rela = entry(table);
	size_t many = (size_t)entry(size) / sizeof(*rela);
	const ElfW(Sym) *symbols = entry(DT_SYMTAB);
	const char *names = entry(DT_STRTAB);

	for (size_t i = 0; rela && i < many; i++) {
		const char *name = names + symbols[ELF64_R_SYM(rela[i].r_info)].st_name;

		if (!strcmp(name, "strlen"))
			return *(length **)(bias + rela[i].r_offset);
	}
	return NULL;
}

int main(void)
{
	char line[64];
	int wrong = 0;

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && line[0] != 'e') {
		ElfW(Addr) bias = _r_debug.r_map->l_addr;

		if (line[0] == 'k' && count < MOST) {
			copies[count] = copy_from(DT_JMPREL, DT_PLTRELSZ, bias);
			if (!copies[count])
				copies[count] = copy_from(DT_RELA, DT_RELASZ, bias);
			wrong += !copies[count++];
		}
		for (int i = 0; i < count; i++)
			wrong += copies[i] && copies[i](line) != strlen(line);
		printf("%d wrong %d\n", count, wrong);
		fflush(stdout);
	}
	return wrong ? 2 : 7;
}
