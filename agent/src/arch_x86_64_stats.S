// SPDX-License-Identifier: Apache-2.0
//
// Entries and exits of -c: see arch_x86_64_entry.S.

#include "arch_x86_64.inc"

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
	incq	STATS_CALLS(%rax,%r11,4)
	lea	RETURN_SLOT(%rsp), %rax
	FIND_PARKED 5f
	cmpq	$0, PARKED_SP(%rdx)
	jne	5f
3:	mov	%r11, PARKED_CELL(%rdx)
	mov	%rax, PARKED_SP(%rdx)
	mov	THREAD_OVERHEAD(%r10), %rax
	mov	%rax, PARKED_B(%rdx)
	mov	%rdx, %r10
	mov	%rcx, %r11
	xor	%eax, %eax
	xor	%edx, %edx
	cmpb	$0, sosc_clock_off(%rip)
	jne	11f
	rdtsc
11:	mov	%eax, PARKED_A(%r10)
	mov	%edx, PARKED_A + 4(%r10)
	RESTORE_FOUR
	jmp	*%r11
4:	.cfi_adjust_cfa_offset 32
	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
	// the first place is taken: look at the others
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
	// no own array: count in the shared one; the exit is timed there, too
9:	SLOW	sosc_stats_slow
	lea	RETURN_SLOT(%rsp), %rax
	FIND_PARKED 5b
	cmpq	$0, PARKED_SP(%rdx)
	je	3b
	jmp	5b
10:	RESTORE_FOUR
	jmp	*%r11
	.cfi_endproc

FUNCTION sosc_x_stats
	EXIT_START
	xor	%ecx, %ecx
	cmpb	$0, sosc_clock_off(%rip)
	jne	7f
	rdtsc
	mov	%rdx, %rcx
	shl	$32, %rcx
	or	%rax, %rcx
	FIND_THREAD 7f, 0
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
	add	PARKED_B(%rdx), %rcx
	movq	$0, PARKED_SP(%rdx)
	sub	THREAD_OVERHEAD(%r10), %rcx
	sub	sosc_cost_inner(%rip), %rcx
	js	6f
1:	mov	THREAD_STATS(%r10), %rdx
	test	%rdx, %rdx
	jz	10f // forked just now
	lea	(%rdx,%rax,4), %rdx
	incq	STATS_RETURNS(%rdx)
	add	%rcx, STATS_TOTAL(%rdx)
	mov	STATS_MIN(%rdx), %rax
	dec	%rax
	cmp	%rax, %rcx
	jb	3f
2:	cmp	STATS_MAX(%rdx), %rcx
	ja	4f
5:	movzbl	SOSC_DISTANCE + SITE_RULE(%r11), %ecx
	test	%ecx, %ecx
	jnz	20f
10:	mov	sosc_cost_outer(%rip), %rax
	add	%rax, THREAD_OVERHEAD(%r10)
	mov	SOSC_DISTANCE + SITE_CELL(%r11), %rax
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
	// enum sosc_error_rule, from 1 on
20:	mov	SAVED_RAX(%rsp), %rax
	IF_FAILED %ecx, %rax, %eax, 29f, 10b
29:	incq	STATS_ERRORS(%rdx)
	jmp	10b
	// a shared array, another place, returns twice, no clock: C does it all,
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
