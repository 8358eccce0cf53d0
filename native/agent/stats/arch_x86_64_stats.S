// SPDX-License-Identifier: Apache-2.0
//
// Entries and exits of -c: see arch_x86_64_call.S.

#include "base/arch_x86_64.inc"

	.text

// ---- -c: times, paired by stack address and cell ---------------------------

FUNCTION sosc_h_stats
	.cfi_startproc
	endbr64
	SAVE_FOUR
	FIND_THREAD 7f, 0
1:	FIND_SITE 6f
2:	mov	THREAD_STATS(%r10), %rax
	test	%rax, %rax
	jz	9f
	movslq	SOSC_DISTANCE + SITE_OPEN(%rcx), %rdx
	add	%r11, %rdx
	incq	STATS_CALLS(%rax,%rdx,4)
	lea	RETURN_SLOT(%rsp), %rax
	FIND_PARKED 5f
	cmpq	$0, PARKED_SP(%rdx)
	jne	5f
3:	mov	%r11, PARKED_CELL(%rdx)
	mov	%rax, PARKED_SP(%rdx)
	mov	THREAD_DONE(%r10), %rax
	mov	%rax, PARKED_B(%rdx)
	mov	%rdx, %r11
	xor	%eax, %eax
	cmpb	$0, sosc_clock_off(%rip)
	jne	11f
12:	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	IF_LONG	%rax, %rdx, 13f
	sub	THREAD_OVERHEAD(%r10), %rax
11:	mov	%rax, PARKED_A(%r11)
	mov	%rcx, %r11
	RESTORE_FOUR
	jmp	*%r11
13:	.cfi_adjust_cfa_offset 32
	SLOW	sosc_delay_passed
	jmp	12b
4:	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
	// the first place is taken: try the others
5:	.cfi_adjust_cfa_offset 32
	mov	%rax, %rdx
	lea	sosc_park_slow(%rip), %rax
	call	sosc_slow_reserve
	mov	%rax, %rdx
	lea	RETURN_SLOT(%rsp), %rax
	test	%rdx, %rdx
	jnz	3b
	mov	%rcx, %r11
	jmp	10f
6:	mov	%rax, %rdx
	lea	sosc_site_slow(%rip), %rax
	call	sosc_slow_reserve
	mov	%rax, %rcx
	test	%rax, %rax
	jnz	2b
	SLOW	sosc_stats_slow
	jmp	4b
7:	SLOW	sosc_thread_slow
	mov	%rax, %r10
	test	%rax, %rax
	jnz	1b
8:	SLOW	sosc_stats_slow
	jmp	4b
	// no own array: count in the shared one, which also gets the time at the exit
9:	mov	%r11, %rdx
	movslq	SOSC_DISTANCE + SITE_OPEN(%rcx), %rax
	add	%rax, %r11
	SLOW	sosc_stats_slow
	mov	%rdx, %r11
	lea	RETURN_SLOT(%rsp), %rax
	FIND_PARKED 5b
	cmpq	$0, PARKED_SP(%rdx)
	je	3b
	jmp	5b
10:	RESTORE_FOUR
	jmp	*%r11
	.cfi_endproc

// -c, for a function whose exit cannot be seen
FUNCTION sosc_h_stats_entry
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%r10
	FIND_THREAD 2f, 0
	mov	THREAD_STATS(%r10), %rax
	test	%rax, %rax
	jz	2f
	incq	STATS_CALLS(%rax,%r11,4)
1:	BACK	%r10
	BACK	%rax
	jmp	*CELL_ORIGINAL(%r11)
2:	.cfi_adjust_cfa_offset 16
	SLOW	sosc_stats_slow
	jmp	1b
	.cfi_endproc

FUNCTION sosc_x_stats
	EXIT_START
	xor	%ecx, %ecx
	cmpb	$0, sosc_clock_off(%rip)
	jne	7f
14:	rdtsc
	mov	%rdx, %rcx
	shl	$32, %rcx
	or	%rax, %rcx
	FIND_THREAD 7f, 0
	IF_LONG	%rcx, %rax, 15f
	lea	RETURN_SLOT(%rsp), %rax
	FIND_PARKED 7f
	cmp	%rax, PARKED_SP(%rdx)
	jne	7f
	mov	SOSC_DISTANCE + SITE_CELL(%r11), %rax
	cmp	%rax, PARKED_CELL(%rdx)
	jne	7f
	cmpb	$0, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jne	7f
	cmpq	$0, THREAD_STATS(%r10)
	je	7f
	sub	PARKED_A(%rdx), %rcx
	sub	THREAD_OVERHEAD(%r10), %rcx
	sub	sosc_cost_inner(%rip), %rcx
	js	6f
	// The self time is what nested calls have not taken. DONE grows by it, so that DONE
	// contains each tick once
1:	mov	PARKED_B(%rdx), %rax
	movq	$0, PARKED_SP(%rdx)
	mov	sosc_cost_outer(%rip), %rdx
	add	%rdx, THREAD_OVERHEAD(%r10)
	add	%rcx, %rax
	sub	THREAD_DONE(%r10), %rax
	cmp	%rcx, %rax
	ja	11f
12:	add	%rax, THREAD_DONE(%r10)
	mov	THREAD_STATS(%r10), %rdx
	test	%rdx, %rdx
	jz	10f // forked just now
	movslq	SOSC_DISTANCE + SITE_OPEN(%r11), %r10
	add	SOSC_DISTANCE + SITE_CELL(%r11), %r10
	lea	(%rdx,%r10,4), %rdx
	incq	STATS_RETURNS(%rdx)
	add	%rcx, STATS_TOTAL(%rdx)
	add	%rax, STATS_SELF(%rdx)
	mov	STATS_MIN(%rdx), %rax
	dec	%rax
	cmp	%rax, %rcx
	jb	3f
2:	cmp	STATS_MAX(%rdx), %rcx
	ja	4f
5:	movzbl	SOSC_DISTANCE + SITE_RULE(%r11), %ecx
	test	%ecx, %ecx
	jnz	20f
10:	mov	SOSC_DISTANCE + SITE_CELL(%r11), %rax
	mov	CELL_ORIGINAL(%rax), %rax
	cmp	SOSC_DISTANCE + SITE_ORIGINAL(%r11), %rax
	jne	8f
	RESTORE_FOUR
	ret
3:	.cfi_adjust_cfa_offset 32
	lea	1(%rcx), %rax
	mov	%rax, STATS_MIN(%rdx)
	jmp	2b
4:	mov	%rcx, STATS_MAX(%rdx)
	jmp	5b
6:	xor	%ecx, %ecx
	jmp	1b
	// interleaved calls (coroutines) have taken all of it; or the call is another thread's
11:	test	%rax, %rax
	jns	13f
	xor	%eax, %eax
	jmp	12b
13:	mov	%rcx, %rax
	jmp	12b
15:	SLOW	sosc_delay_passed
	jmp	14b
	// enum sosc_error_rule, from 1 on
20:	mov	SAVED_RAX(%rsp), %rax
	IF_FAILED %ecx, %rax, %eax, 29f, 10b
29:	incq	STATS_ERRORS(%rdx)
	jmp	10b
	// Shared array, another place, function that returns twice, no clock: C does everything,
	// with the clock as it was read
7:	SAVE_REST
	mov	%rsp, %rdi
	mov	%rcx, %rsi
	CALL_C	sosc_stats_exit
	RESTORE_REST
	jmp	9f
8:	SLOW	sosc_site_rebound
9:	RESTORE_FOUR
	ret
	.cfi_endproc

	GATED sosc_h_stats
	GATED sosc_h_stats_entry
