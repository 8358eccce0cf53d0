// SPDX-License-Identifier: Apache-2.0
// The register file as the targets' assembly loads and stores it (struct regs).
#ifndef SOSC_REGS_H
#define SOSC_REGS_H

#define REGS_GPR 0 // rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r12 r13 r14 r15
#define REGS_FLAGS 112
#define REGS_MXCSR 120
#define REGS_CW 124
#define REGS_K 128 // k0..k7
#define REGS_VECTORS 192 // 32 of 64 bytes
#define REGS_SIZE 2240

#ifdef __ASSEMBLER__
// clang-format off
.macro regs_gpr operation, base
	\operation rax, REGS_GPR + 0, \base
	\operation rbx, REGS_GPR + 8, \base
	\operation rcx, REGS_GPR + 16, \base
	\operation rdx, REGS_GPR + 24, \base
	\operation rsi, REGS_GPR + 32, \base
	\operation rdi, REGS_GPR + 40, \base
	\operation rbp, REGS_GPR + 48, \base
	\operation r8, REGS_GPR + 56, \base
	\operation r9, REGS_GPR + 64, \base
	\operation r10, REGS_GPR + 72, \base
	\operation r12, REGS_GPR + 80, \base
	\operation r13, REGS_GPR + 88, \base
	\operation r14, REGS_GPR + 96, \base
	\operation r15, REGS_GPR + 104, \base
.endm
.macro regs_store_gpr reg, at, base
	mov %\reg, \at(%\base)
.endm
.macro regs_load_gpr reg, at, base
	mov \at(%\base), %\reg
.endm
// level (in memory): 0 xmm0-15, 1 ymm0-15, 2 zmm0-31 and k0-7
.macro regs_vectors direction, level, base
	cmpl $1, \level
	je 771f
	ja 772f
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	.ifc \direction, store
	movups %xmm\n, REGS_VECTORS + 64 * \n(%\base)
	.else
	movups REGS_VECTORS + 64 * \n(%\base), %xmm\n
	.endif
	.endr
	jmp 773f
771:
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	.ifc \direction, store
	vmovups %ymm\n, REGS_VECTORS + 64 * \n(%\base)
	.else
	vmovups REGS_VECTORS + 64 * \n(%\base), %ymm\n
	.endif
	.endr
	jmp 773f
772:
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	.ifc \direction, store
	vmovups %zmm\n, REGS_VECTORS + 64 * \n(%\base)
	.else
	vmovups REGS_VECTORS + 64 * \n(%\base), %zmm\n
	.endif
	.endr
	.irp n, 0,1,2,3,4,5,6,7
	.ifc \direction, store
	kmovq %k\n, REGS_K + 8 * \n(%\base)
	.else
	kmovq REGS_K + 8 * \n(%\base), %k\n
	.endif
	.endr
773:
.endm
// clang-format on
#else
struct regs {
	unsigned long gpr[14];
	unsigned long flags;
	unsigned mxcsr;
	unsigned short cw;
	unsigned short pad;
	unsigned long k[8];
	unsigned char vector[32][64];
};
_Static_assert(sizeof(struct regs) == REGS_SIZE, "layout");

extern struct regs *fregs_seen(void); // what fregs found at its entry
extern void fregs_level(int level);
long fregs(void); // and returns: see lib_regs.S
#endif
#endif
