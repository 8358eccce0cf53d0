// SPDX-License-Identifier: Apache-2.0
// fregs stores every register it was called with, then returns values in rax,
// rdx, vectors 0 and 1, st(0) and st(1), with the vectors at full width.
#include "regs.h"

	.text
	.globl	fregs
	.type	fregs, @function
fregs:
	.cfi_startproc
	endbr64
	lea	seen(%rip), %r11
	regs_gpr regs_store_gpr, r11
	pushfq
	.cfi_adjust_cfa_offset 8
	pop	REGS_FLAGS(%r11)
	.cfi_adjust_cfa_offset -8
	stmxcsr	REGS_MXCSR(%r11)
	fnstcw	REGS_CW(%r11)
	regs_vectors store, level(%rip), r11
	lea	result(%rip), %r11
	regs_vectors load, level(%rip), r11
	fldl	second(%rip)
	fldl	first(%rip)
	mov	$0x1111222233334444, %rax
	mov	$0x5555666677778888, %rdx
	// a callee may leave anything in the other caller-saved registers
	mov	$-1, %rcx
	mov	$-2, %rsi
	mov	$-3, %rdi
	mov	$-4, %r8
	mov	$-5, %r9
	mov	$-6, %r10
	mov	$-7, %r11
	ret
	.cfi_endproc
	.size	fregs, . - fregs

	.globl	fregs_seen
	.type	fregs_seen, @function
fregs_seen:
	.cfi_startproc
	endbr64
	lea	seen(%rip), %rax
	ret
	.cfi_endproc
	.size	fregs_seen, . - fregs_seen

	.globl	fregs_level
	.type	fregs_level, @function
fregs_level:
	.cfi_startproc
	endbr64
	mov	%edi, level(%rip)
	lea	result + REGS_VECTORS(%rip), %rax
	mov	$2048 / 4, %ecx
1:	mov	%ecx, (%rax)
	add	$4, %rax
	dec	%ecx
	jnz	1b
	lea	result + REGS_K(%rip), %rax
	mov	$16, %ecx
2:	mov	%ecx, (%rax)
	add	$4, %rax
	dec	%ecx
	jnz	2b
	ret
	.cfi_endproc
	.size	fregs_level, . - fregs_level

	.section .rodata
	.balign	8
first:	.double	1.25
second:	.double	-2.5
	.bss
	.balign	64
seen:	.zero	REGS_SIZE
	.balign	64
result:	.zero	REGS_SIZE
level:	.zero	4
	.section .note.GNU-stack, "", @progbits
