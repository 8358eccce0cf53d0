// SPDX-License-Identifier: Apache-2.0
//
// INJECT's handler for slots with one rule: counts the call, and calls C only for calls that the
// rule may choose.

#include "base/arch_x86_64.inc"

	.text

FUNCTION sosc_h_inject
	.cfi_startproc
	endbr64
	SAVE_FOUR
	FIND_THREAD 7f, 0
	cmpb	$0, THREAD_QUIET(%r10)
	jne	7f
	lea	sosc_cells(%rip), %rdx
	mov	%r11, %rax
	sub	%rdx, %rax
	shr	$4, %eax
	lea	sosc_link_heads(%rip), %rdx
	mov	(%rdx,%rax,4), %eax
	imul	$LINK_SIZE, %eax, %eax
	lea	sosc_links(%rip), %rdx
	add	%rax, %rdx
	mov	sosc_inject_points(%rip), %rax
	add	LINK_POINT(%rdx), %rax
	mov	$1, %ecx
	lock xadd %rcx, (%rax)
	inc	%rcx
	mov	%rcx, %rax
	sub	LINK_FIRST(%rdx), %rax
	cmp	LINK_SPAN(%rdx), %rax
	jbe	8f
	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
	// a thread that is not known yet, a forked child's thread, or one that is quiet
7:	.cfi_adjust_cfa_offset 32
	RESTORE_FOUR
	jmp	sosc_h_layer
8:	.cfi_adjust_cfa_offset 32
	SAVE_REST
	mov	%rsp, %rdi
	mov	%rcx, %rsi
	CALL_C	sosc_layer_entry_counted
	mov	%rax, (%rsp)
	RESTORE_REST
	RESTORE_FOUR
	jmp	*%r11
	.cfi_endproc
