// SPDX-License-Identifier: Apache-2.0
// An auditor that asks for every call: the loader then binds by another resolver.
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>

unsigned la_version(unsigned version)
{
	return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
	(void)map;
	(void)lmid;
	(void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *sym, unsigned index, uintptr_t *from, uintptr_t *to,
				  La_x86_64_regs *regs, unsigned *flags, const char *name,
				  long *size)
{
	(void)index;
	(void)from;
	(void)to;
	(void)regs;
	(void)flags;
	(void)name;
	(void)size;
	return sym->st_value;
}
