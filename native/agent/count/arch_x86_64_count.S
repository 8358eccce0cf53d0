// SPDX-License-Identifier: Apache-2.0
//
// Handlers of --count-only: see arch_x86_64_call.S.

#include "base/arch_x86_64.inc"

	.text

FUNCTION sosc_h_count
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%r10
	FIND_THREAD 2f, 0
	mov	%r11, %rax
	shr	$1, %rax
	mov	THREAD_COUNTS(%r10), %r10
	test	%r10, %r10
	jz	2f
	incq	(%r10,%rax)
1:	BACK	%r10
	BACK	%rax
	jmp	*CELL_ORIGINAL(%r11)
2:	.cfi_adjust_cfa_offset 16
	SLOW	sosc_count_slow
	jmp	1b
	.cfi_endproc

// counts by call site
FUNCTION sosc_h_count_callers
	.cfi_startproc
	endbr64
	SAVE_FOUR
	FIND_THREAD 2f, 0
6:	FIND_SITE 3f
1:	movslq	SOSC_DISTANCE + SITE_OPEN(%rcx), %rax
	add	%r11, %rax
	mov	THREAD_COUNTS(%r10), %r10
	shr	$1, %rax
	test	%r10, %r10
	jz	4f
	incq	(%r10,%rax)
	testl	$COUNTER_OFTEN - 1, (%r10,%rax)
	jz	7f
	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
7:	.cfi_adjust_cfa_offset 32
	mov	RETURN_SLOT(%rsp), %rdx
	lea	sosc_counter_learn(%rip), %rax
	call	sosc_slow_reserve
	jmp	5f
2:	SLOW	sosc_thread_slow
	mov	%rax, %r10
	test	%rax, %rax
	jnz	6b
	SLOW	sosc_count_slow
	jmp	5f
3:	mov	%rax, %rdx
	lea	sosc_site_slow(%rip), %rax
	call	sosc_slow_reserve
	mov	%rax, %rcx
	test	%rax, %rax
	jnz	1b
	SLOW	sosc_count_slow
	jmp	5f
4:	mov	%r11, %rdx
	lea	(,%rax,2), %r11
	SLOW	sosc_count_slow
	mov	%rdx, %r11
5:	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
	.cfi_endproc

	GATED sosc_h_count
	GATED sosc_h_count_callers
