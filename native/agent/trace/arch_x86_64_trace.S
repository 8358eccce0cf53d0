// SPDX-License-Identifier: Apache-2.0
//
// Handlers of trace: see arch_x86_64_call.S.

#include "base/arch_x86_64.inc"

	.text

// ---- records ---------------------------------------------------------------

// Fills the unit in rax for the cell in r11 and commits it as \type. Clobbers rax, rdx, rcx and
// r11. The clock is read last, so that work before it does not count as time of the call.
.macro WRITE_ENTRY type
	mov	%rdi, 24(%rax)
	mov	RETURN_SLOT(%rsp), %rdx
	mov	%rdx, 16(%rax)
	lea	RETURN_SLOT(%rsp), %edx
	mov	%edx, 4(%rax)
	lea	sosc_cells(%rip), %rdx
	sub	%rdx, %r11
	shr	$4, %r11d
	or	$\type, %r11d
	mov	%rax, %rcx
	xor	%eax, %eax
	xor	%edx, %edx
	cmpb	$0, sosc_clock_off(%rip)
	jne	90f
	rdtsc
90:	mov	%eax, 8(%rcx)
	mov	%edx, 12(%rcx)
	mov	%r11d, (%rcx)
.endm

// Writes the five register words after the first into two units behind the one in rax.
.macro WRITE_SIX
	movl	$UNIT_WORDS, 32(%rax)
	movl	$0, 36(%rax)
	mov	%rsi, 40(%rax)
	mov	SAVED_RDX(%rsp), %rdx
	mov	%rdx, 48(%rax)
	mov	SAVED_RCX(%rsp), %rdx
	mov	%rdx, 56(%rax)
	movl	$UNIT_WORDS_MORE, 64(%rax)
	movl	$0, 68(%rax)
	mov	%r8, 72(%rax)
	mov	%r9, 80(%rax)
.endm

// Writes only an entry, then jumps on to the function: this works for every function.
.macro ENTRY_HANDLER name, size, six
FUNCTION \name
	.cfi_startproc
	endbr64
	SAVE_FOUR
	FIND_THREAD 7f, 1
2:	RESERVE	\size, 8f
3:
.if \six
	WRITE_SIX
.endif
	mov	%r11, %r10
	WRITE_ENTRY UNIT_ENTRY_ONLY
	mov	%r10, %r11
4:	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
7:	.cfi_adjust_cfa_offset 32
	SLOW	sosc_thread_slow
	mov	%rax, %r10
	test	%rax, %rax
	jnz	2b
	jmp	4b
8:	mov	$\size, %edx
	lea	sosc_ring_slow_entry(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jnz	3b
	jmp	4b
	.cfi_endproc
.endm

	ENTRY_HANDLER sosc_h_entry, 32, 0
	ENTRY_HANDLER sosc_h_entry_six, 96, 1

// Slow paths of the handlers for entry and exit. CALL_SITE sets rcx to the trampoline of the call
// site, which may have to be made.
.macro CALL_SITE none, made
	mov	%rax, %rdx
	lea	sosc_site_slow(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jz	\none
	mov	%rax, %rcx
	jmp	\made
.endm

.macro CALL_THREAD there, none
	SLOW	sosc_thread_slow
	mov	%rax, %r10
	test	%rax, %rax
	jnz	\there
	jmp	\none
.endm

.macro CALL_ROOM size, there, none
	mov	$\size, %edx
	lea	sosc_ring_slow_entry(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jnz	\there
	jmp	\none
.endm

// Goes to the trampoline in rcx, which calls the function.
.macro CALL_THROUGH
	mov	%rcx, %r11
	RESTORE_FOUR
	jmp	*%r11
.endm

// Writes an entry that no exit can turn into a WHOLE: rax = unit, rcx = trampoline.
.macro CALL_PLAIN
	mov	SOSC_DISTANCE + SITE_CELL(%rcx), %r11
	mov	%rcx, %r10
	WRITE_ENTRY UNIT_ENTRY
	mov	%r10, %r11
	RESTORE_FOUR
	jmp	*%r11
.endm

// Makes the unit in rax an OPEN entry of the call site whose trampoline is in rcx. Goes to \plain
// if it cannot be one. Goes to \taken, with rax and rcx unchanged, if the unit may have been taken
// away. Goes to \long if the thread may have waited for a processor, and from there back to \on
// with the time in rdx. Clobbers rdx and r11, keeps rcx.
.macro WRITE_OPEN size, plain, taken, long, on
	cmpl	$0, SOSC_DISTANCE + SITE_OPEN(%rcx)
	je	\plain
	cmpb	$0, sosc_clock_off(%rip)
	jne	\plain
	mov	%rdi, 24(%rax)
	lea	RETURN_SLOT(%rsp), %edx
	mov	%edx, 4(%rax)
	mov	%rax, %r11
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rdx, %rax
	sub	THREAD_LAST(%r10), %rax
	cmp	$DELAY_LONG, %rax
	jg	\long
	mov	%rdx, THREAD_LAST(%r10)
\on:	sub	sosc_tsc_start(%rip), %rdx
	mov	%rdx, %rax
	shr	$START_BITS, %rax
	mov	%r11, %rax
	jnz	\plain
	mov	SOSC_DISTANCE + SITE_OPEN(%rcx), %r11d
	IF_NOT_LAST \size, \taken
	// both words are 0; in a child forked just now, an exit may have added bits to them already
	or	%rdx, 8(%rax)
	or	%r11d, (%rax)
.endm

// The thread was at no hook for a long time.
.macro CALL_LONG on
	lea	sosc_delay_at_entry(%rip), %rax
	call	sosc_slow_reserve
	mov	%rax, %rdx
	jmp	\on
.endm

// A signal handler has recorded more behind the unit in rax, so no exit can make it WHOLE. Or the
// handler has forked and this is the child: then an exit may have made it WHOLE already, and the
// unit belongs to the parent.
.macro CALL_TAKEN plain
	mov	%rax, %rdx
	lea	sosc_ring_is_ours(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jnz	\plain
	CALL_THROUGH
	.cfi_adjust_cfa_offset 32
.endm

// Entry and exit.
FUNCTION sosc_h_call
	.cfi_startproc
	endbr64
	SAVE_FOUR
	FIND_THREAD 7f, 1
1:	FIND_SITE 6f
2:	RESERVE	32, 8f
3:	WRITE_OPEN 32, 9f, 5f, 10f, 11
	CALL_THROUGH
4:	.cfi_adjust_cfa_offset 32
	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
6:	.cfi_adjust_cfa_offset 32
	CALL_SITE entry_only_tail, 2b
7:	CALL_THREAD 1b, 4b
8:	CALL_ROOM 32, 3b, 4b
10:	CALL_LONG 11b
5:	CALL_TAKEN 9f
9:	CALL_PLAIN
	.cfi_endproc

// The same with six register words: in one more unit if each of them fits into 48 bits, else in
// two.
FUNCTION sosc_h_call_six
	.cfi_startproc
	endbr64
	SAVE_FOUR
	FIND_THREAD 7f, 1
1:	FIND_SITE 6f
2:	cmpl	$0, SOSC_DISTANCE + SITE_OPEN(%rcx)
	je	10f
	movabs	$1 << 47, %rdx
	lea	(%rsi,%rdx), %rax
	mov	SAVED_RDX(%rsp), %r11
	add	%rdx, %r11
	or	%r11, %rax
	mov	SAVED_RCX(%rsp), %r11
	add	%rdx, %r11
	or	%r11, %rax
	lea	(%r8,%rdx), %r11
	or	%r11, %rax
	lea	(%r9,%rdx), %r11
	or	%r11, %rax
	mov	SOSC_DISTANCE + SITE_CELL(%rcx), %r11
	shr	$48, %rax
	jnz	10f
	RESERVE	64, 8f
3:	mov	%rsi, 40(%rax)
	mov	SAVED_RDX(%rsp), %rdx
	mov	%rdx, 46(%rax)
	mov	SAVED_RCX(%rsp), %rdx
	mov	%rdx, 52(%rax)
	mov	%r8d, 58(%rax)
	mov	%r8, %rdx
	shr	$32, %rdx
	mov	%dx, 62(%rax)
	mov	%r9d, 36(%rax)
	mov	%r9, %rdx
	shr	$32, %rdx
	movzwl	%dx, %edx
	or	$UNIT_PACKED, %edx
	mov	%edx, 32(%rax)
	WRITE_OPEN 64, 9f, 5f, 13f, 15
	CALL_THROUGH
10:	.cfi_adjust_cfa_offset 32
	RESERVE	96, 12f
11:	WRITE_SIX
	WRITE_OPEN 96, 9f, 5f, 14f, 16
	CALL_THROUGH
4:	.cfi_adjust_cfa_offset 32
	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
6:	.cfi_adjust_cfa_offset 32
	CALL_SITE entry_only_tail_six, 2b
7:	CALL_THREAD 1b, 4b
8:	CALL_ROOM 64, 3b, 4b
12:	CALL_ROOM 96, 11b, 4b
13:	CALL_LONG 15b
14:	CALL_LONG 16b
5:	CALL_TAKEN 9f
9:	CALL_PLAIN
	.cfi_endproc

// No return trampoline is left: four registers are saved, r10 = thread.
.macro ENTRY_ONLY_TAIL name, handler
	.balign	16
\name:
	.cfi_startproc
	.cfi_adjust_cfa_offset 32
	RESTORE_FOUR
	jmp	\handler
	.cfi_endproc
.endm
	ENTRY_ONLY_TAIL entry_only_tail, sosc_h_entry
	ENTRY_ONLY_TAIL entry_only_tail_six, sosc_h_entry_six

// With a capture program: C does everything. ... and with the call stack: rbp may be the caller's
// frame pointer
FUNCTION sosc_h_stack
	.cfi_startproc
	endbr64
	SAVE_FOUR
	SAVE_REST
	mov	%rsp, %rdi
	mov	%rbp, %rsi
	CALL_C	sosc_trace_entry_stack
	mov	%rax, (%rsp)
	RESTORE_REST
	RESTORE_FOUR
	jmp	*%r11
	.cfi_endproc

FUNCTION sosc_h_program
	.cfi_startproc
	endbr64
	SAVE_FOUR
	SAVE_REST
	mov	%rsp, %rdi
	CALL_C	sosc_trace_entry
	mov	%rax, (%rsp)
	RESTORE_REST
	RESTORE_FOUR
	jmp	*%r11
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
	// Is the entry directly before, with only its own data in between?
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
	// no: write a separate exit
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
	// the clock was not read: it is forbidden, or the time is not wanted
21:	testb	$SITE_FLAG_BRIEF, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jz	13b
	xor	%edx, %edx
	jmp	13b
	// a signal handler has taken more units behind it
17:	lea	sosc_ring_unneeded(%rip), %rax
	call	sosc_slow_reserve
	BACK	%rsi
	jmp	4b
	// the same, or the handler has forked and this is the child: then the unit belongs to the
	// parent
19:	mov	%rax, %rdx
	lea	sosc_ring_is_ours(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jnz	3b
	jmp	8f
	// a separate exit needs a time for its order, even if no duration is wanted
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

	GATED sosc_h_entry
	GATED sosc_h_entry_six
	GATED sosc_h_call
	GATED sosc_h_call_six
	GATED sosc_h_program
	GATED sosc_h_stack
