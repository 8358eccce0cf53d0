// SPDX-License-Identifier: Apache-2.0
// call_with(in, out, level): load every register from in, call fregs through the
// slot, store every register to out.
#include "regs.h"

	.text
	.globl	call_with
	.type	call_with, @function
call_with:
	.cfi_startproc
	endbr64
	.irp r, rbx, rbp, r12, r13, r14, r15
	push	%\r
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \r, 0
	.endr
	sub	$40, %rsp
	.cfi_adjust_cfa_offset 40
	mov	%rsi, 0(%rsp)	// out
	mov	%edx, 8(%rsp)	// level
	stmxcsr	16(%rsp)
	fnstcw	20(%rsp)
	mov	%rdi, %r11
	regs_vectors load, 8(%rsp), r11
	ldmxcsr	REGS_MXCSR(%r11)
	fldcw	REGS_CW(%r11)
	push	REGS_FLAGS(%r11)
	.cfi_adjust_cfa_offset 8
	popfq
	.cfi_adjust_cfa_offset -8
	regs_gpr regs_load_gpr, r11
#ifdef __PIC__
	call	fregs@PLT
#else
	call	fregs
#endif
	mov	0(%rsp), %r11
	regs_gpr regs_store_gpr, r11
	pushfq
	.cfi_adjust_cfa_offset 8
	pop	REGS_FLAGS(%r11)
	.cfi_adjust_cfa_offset -8
	cld
	stmxcsr	REGS_MXCSR(%r11)
	fnstcw	REGS_CW(%r11)
	regs_vectors store, 8(%rsp), r11
	ldmxcsr	16(%rsp)
	fldcw	20(%rsp)
	// the two x87 results, st(0) then st(1), over k0 and k1
	fstpl	REGS_K + 0(%r11)
	fstpl	REGS_K + 8(%r11)
	add	$40, %rsp
	.cfi_adjust_cfa_offset -40
	.irp r, r15, r14, r13, r12, rbp, rbx
	pop	%\r
	.cfi_adjust_cfa_offset -8
	.cfi_restore \r
	.endr
	ret
	.cfi_endproc
	.size	call_with, . - call_with
	.section .note.GNU-stack, "", @progbits
