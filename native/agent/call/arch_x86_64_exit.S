// SPDX-License-Identifier: Apache-2.0
//
// Handlers of exits: see arch_x86_64_entry.S.

#include "base/arch_x86_64.inc"

	.text

// ---- exits -----------------------------------------------------------------

FUNCTION sosc_x_plain
	.cfi_startproc
	.cfi_def_cfa %rsp, 0
	.cfi_escape 0x16, 16, 9, 0x7b, 0, 0x0c, DISTANCE_BYTES, 0x22, 0x06
	endbr64
	pushq	SOSC_DISTANCE + SITE_RETURN(%r11)
	.cfi_def_cfa %rsp, 8
	.cfi_offset 16, -8
	mov	SITE_KEPT + 8(%rsp), %r11
	ret
	.cfi_endproc

FUNCTION sosc_x_call
	EXIT_START
	testb	$(SITE_FLAGS_C | SITE_FLAG_BRIEF), SOSC_DISTANCE + SITE_FLAGS(%r11)
	jnz	20f
	xor	%ecx, %ecx
	cmpb	$0, sosc_clock_off(%rip)
	jne	1f
24:	rdtsc
	mov	%rdx, %rcx
	shl	$32, %rcx
	or	%rax, %rcx
	FIND_THREAD 7f, 1
2:	IF_LONG	%rcx, %rax, 25f
26:	RESERVE	32, 8f
	// Is the entry in front of it, with nothing but its own data in between?
	mov	SOSC_DISTANCE + SITE_OPEN(%r11), %edx
	test	%edx, %edx
	jz	3f
	KEEP	%rsi
	mov	%rax, %rsi
10:	sub	$32, %rsi
	cmp	%edx, (%rsi)
	je	11f
	cmpb	$DATA_BYTE, 3(%rsi)
	jb	14f
	cmpb	$DATA_BYTE + 15, 3(%rsi)
	jbe	10b
	jmp	14f
11:	lea	RETURN_SLOT + 8(%rsp), %edx
	cmp	%edx, 4(%rsi)
	jne	14f
	movzbl	SOSC_DISTANCE + SITE_RULE(%r11), %edx
	test	%edx, %edx
	jnz	15f
12:	mov	$NO_TICKS, %edx
	test	%rcx, %rcx
	jz	21f
	mov	%rcx, %rdx
	sub	sosc_tsc_start(%rip), %rdx
	sub	8(%rsi), %rdx
	cmp	$NO_TICKS, %rdx
	jae	14f
13:	IF_NOT_LAST 32, 14f
	mov	SAVED_RAX + 8(%rsp), %rcx
	mov	%rcx, 16(%rsi)
	mov	%edx, %ecx
	and	$(1 << TICKS_LOW) - 1, %ecx
	add	$TO_WHOLE, %ecx
	add	SOSC_DISTANCE + SITE_OPEN(%r11), %ecx
	shr	$TICKS_LOW, %edx
	mov	%dx, 14(%rsi)
	mov	%ecx, (%rsi)
	mov	%rax, %rdx
	add	$32, %rax
	cmpxchg	%rdx, THREAD_POS(%r10)
	jne	17f
	BACK	%rsi
	mov	SOSC_DISTANCE + SITE_CELL(%r11), %rdx
	mov	CELL_ORIGINAL(%rdx), %r10
	cmp	SOSC_DISTANCE + SITE_ORIGINAL(%r11), %r10
	jne	6f
	RESTORE_FOUR
	ret
	// no: an exit of its own
14:	.cfi_adjust_cfa_offset 40
	BACK	%rsi
	IF_NOT_LAST 32, 19f
3:	test	%rcx, %rcx
	jz	22f
23:	mov	%rcx, 8(%rax)
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
15:	.cfi_adjust_cfa_offset 8
	KEEP	%rdi
	mov	SAVED_RAX + 16(%rsp), %rdi
	IF_FAILED %edx, %rdi, %edi, 16f, 18f
16:	BACK	%rdi
	jmp	14b
18:	.cfi_adjust_cfa_offset 8
	BACK	%rdi
	jmp	12b
	// the clock was not read: there is none, or nobody asks
21:	testb	$SITE_FLAG_BRIEF, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jz	13b
	xor	%edx, %edx
	jmp	13b
	// a signal handler has taken more behind it
17:	lea	sosc_ring_unneeded(%rip), %rax
	call	sosc_slow_reserve
	BACK	%rsi
	jmp	4b
	// the same, or it has forked, and this is the child: that unit is the parent's
19:	mov	%rax, %rdx
	lea	sosc_ring_is_ours(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jnz	3b
	jmp	8f
	// an exit of its own has a time that orders it, asked for or not
22:	cmpb	$0, sosc_clock_off(%rip)
	jne	23b
	mov	%rax, %rcx
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rcx, %rax
	mov	%rdx, %rcx
	jmp	23b
	// the time is not wanted
1:	FIND_THREAD 7f, 1
	jmp	26b
25:	SLOW	sosc_delay_passed
	jmp	24b
7:	SLOW	sosc_thread_slow_exit
	mov	%rax, %r10
	test	%rax, %rax
	jz	4b
	test	%rcx, %rcx
	jnz	2b
	jmp	26b
8:	mov	$32, %edx
	lea	sosc_ring_slow_exit(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jnz	3b
	jmp	4b
20:	xor	%ecx, %ecx
	testb	$SITE_FLAGS_C, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jz	1b
	SAVE_REST
	mov	%rsp, %rdi
	CALL_C	sosc_trace_exit
	RESTORE_REST
	jmp	4b
	.cfi_endproc

// An instrument whose exit handler is in C.
FUNCTION sosc_x_layer
	EXIT_START
	SAVE_REST
	mov	%rsp, %rdi
	CALL_C	sosc_layer_exit
	RESTORE_REST
	RESTORE_FOUR
	ret
	.cfi_endproc

// In place of a function that is not called: the result is in its register.
FUNCTION sosc_return_now
	.cfi_startproc
	endbr64
	ret
	.cfi_endproc
