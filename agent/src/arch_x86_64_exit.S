// SPDX-License-Identifier: Apache-2.0
//
// Handlers of exits: see arch_x86_64_entry.S.

#include "arch_x86_64.inc"

	.text

// ---- exits -----------------------------------------------------------------

FUNCTION sosc_x_plain
	.cfi_startproc
	.cfi_def_cfa %rsp, 0
	.cfi_escape 0x16, 16, 9, 0x7b, 0, 0x0c, 0x00, 0x00, 0x50, 0x00, 0x22, 0x06
	endbr64
	pushq	SOSC_DISTANCE + SITE_RETURN(%r11)
	.cfi_def_cfa %rsp, 8
	.cfi_offset 16, -8
	ret
	.cfi_endproc

FUNCTION sosc_x_call
	EXIT_START
	testb	$SITE_FLAGS_C, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jnz	9f
	xor	%ecx, %ecx
	cmpb	$0, sosc_clock_off(%rip)
	jne	1f
	rdtsc
	mov	%rdx, %rcx
	shl	$32, %rcx
	or	%rax, %rcx
1:	FIND_THREAD 7f, 1
2:	RESERVE	32, 8f
3:	mov	%rcx, 8(%rax)
	mov	SAVED_RAX(%rsp), %rdx
	mov	%rdx, 16(%rax)
	movzbl	SOSC_DISTANCE + SITE_NAMESPACE(%r11), %edx
	lea	sosc_errno_offsets(%rip), %rcx
	mov	(%rcx,%rdx,8), %rdx
	mov	%fs:(%rdx), %edx
	mov	%rdx, 24(%rax)
	lea	RETURN_SLOT(%rsp), %edx
	mov	%edx, 4(%rax)
	mov	SOSC_DISTANCE + SITE_CELL(%r11), %rdx
	mov	CELL_ORIGINAL(%rdx), %r10
	lea	sosc_cells(%rip), %rcx
	sub	%rcx, %rdx
	shr	$4, %edx
	or	$UNIT_EXIT, %edx
	mov	%edx, (%rax)
	cmp	SOSC_DISTANCE + SITE_ORIGINAL(%r11), %r10
	jne	6f
4:	RESTORE_FOUR
	ret
6:	.cfi_adjust_cfa_offset 32
	SLOW	sosc_site_rebound
	jmp	4b
7:	SLOW	sosc_thread_slow_exit
	mov	%rax, %r10
	test	%rax, %rax
	jnz	2b
	jmp	4b
8:	mov	$32, %edx
	lea	sosc_ring_slow_exit(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jnz	3b
	jmp	4b
9:	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r11
	mov	%rsp, %rdi
	CALL_C	sosc_capture_exit
	BACK	%r11
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	jmp	4b
	.cfi_endproc
