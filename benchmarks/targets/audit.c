// SPDX-License-Identifier: Apache-2.0
// An auditor for LD_AUDIT (rtld-audit(7)) that records each call and each return, as tools
// like latrace do, and as cheaply as one can: 32 bytes with the clock, into a ring of its
// own thread that nobody reads.
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <x86intrin.h>

struct record {
	uint64_t tsc, what, sp, value;
};

enum { RECORDS = 1 << 18 };

static __thread struct record *ring;
static __thread uint64_t position;
static struct record rings[8][RECORDS];
static int used;

static struct record *next(void)
{
	if (!ring)
		ring = rings[__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED) & 7];
	return &ring[position++ & (RECORDS - 1)];
}

unsigned int la_version(unsigned int version)
{
	return version;
}

unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
	(void)map;
	(void)lmid;
	(void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned int index, uintptr_t *refcook,
				  uintptr_t *defcook, La_x86_64_regs *regs, unsigned int *flags,
				  const char *name, long *framesize)
{
	(void)index;
	(void)refcook;
	(void)defcook;
	(void)flags;
	(void)name;
	*framesize = 256; // asks for la_x86_64_gnu_pltexit
	*next() = (struct record){__rdtsc(), (uintptr_t)symbol, regs->lr_rsp, regs->lr_rdi};
	return symbol->st_value;
}

unsigned int la_x86_64_gnu_pltexit(Elf64_Sym *symbol, unsigned int index, uintptr_t *refcook,
				   uintptr_t *defcook, const La_x86_64_regs *in,
				   La_x86_64_retval *out, const char *name)
{
	(void)index;
	(void)refcook;
	(void)defcook;
	(void)name;
	*next() = (struct record){__rdtsc(), (uintptr_t)symbol | 1, in->lr_rsp, out->lrv_rax};
	return 0;
}
