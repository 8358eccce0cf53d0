// SPDX-License-Identifier: Apache-2.0
//
// Handlers of entries for x86-64 (System V psABI, section 3.2).
//
// An entry trampoline loads the address of its cell into r11, the one register
// that a call through a PLT may destroy, and jumps to the cell's handler. Every
// handler keeps all other registers, flags excepted, touches no vector register
// and leaves the stack as it found it. errno is read, never written.
//
// A handler that wants to see the exit enters the function through the return
// trampoline of the call site: that one takes the return address off the stack,
// calls the function itself, so that arguments stay where they are and call and
// return stay paired, and jumps to the exit handler, which puts the return
// address back and returns.
//
// The unwind rules hold at every instruction: a signal or an asynchronous
// cancellation may unwind from anywhere.

#include "arch_x86_64.inc"

	.text

// Calls a C function in rax with every register but rax kept; r11 is its first
// argument, r10 the second.
FUNCTION sosc_slow_call
	.cfi_startproc
	KEEP	%rcx
	KEEP	%rdx
	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r10
	KEEP	%r11
	mov	%r11, %rdi
	mov	%r10, %rsi
	CALL_C	*%rax
	BACK	%r11
	BACK	%r10
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	BACK	%rdx
	BACK	%rcx
	ret
	.cfi_endproc

// Calls a C function in rax with (cell r11, thread r10, rdx): bytes wanted of the
// ring, a return address, or a stack address; what it finds, or 0, in rax.
FUNCTION sosc_slow_reserve
	.cfi_startproc
	KEEP	%rcx
	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r10
	KEEP	%r11
	mov	%r11, %rdi
	mov	%r10, %rsi
	CALL_C	*%rax
	BACK	%r11
	BACK	%r10
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	BACK	%rcx
	ret
	.cfi_endproc

// ---- no record -------------------------------------------------------------

FUNCTION sosc_h_jump
	.cfi_startproc
	endbr64
	jmp	*CELL_ORIGINAL(%r11)
	.cfi_endproc

// To where another cell goes: original is that cell.
FUNCTION sosc_h_alias
	.cfi_startproc
	endbr64
	mov	CELL_ORIGINAL(%r11), %r11
	jmp	*CELL_ORIGINAL(%r11)
	.cfi_endproc

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

// -c for a function whose exit cannot be seen
FUNCTION sosc_h_stats_entry
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%r10
	FIND_THREAD 2f, 0
	mov	THREAD_COUNTS(%r10), %rax
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

// ---- records ---------------------------------------------------------------

// Fills the unit in rax for the cell in r11 and commits it as \type; clobbers
// rax, rdx, rcx and r11. The clock is read last: what comes before is not the
// call's time.
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

// the five register words after the first, in two units behind the one in rax
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

// Entry record alone, then a tail jump: right for every function.
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

// Entry and exit.
.macro CALL_HANDLER name, size, six, entry_only
FUNCTION \name
	.cfi_startproc
	endbr64
	SAVE_FOUR
	FIND_THREAD 7f, 1
1:	FIND_SITE 6f
2:	RESERVE	\size, 8f
3:
.if \six
	WRITE_SIX
.endif
	mov	%rcx, %r10
	WRITE_ENTRY UNIT_ENTRY
	mov	%r10, %r11
	RESTORE_FOUR
	jmp	*%r11
4:	.cfi_adjust_cfa_offset 32
	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
6:	.cfi_adjust_cfa_offset 32
	mov	%rax, %rdx
	lea	sosc_site_slow(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jz	\entry_only
	mov	%rax, %rcx
	jmp	2b
7:	SLOW	sosc_thread_slow
	mov	%rax, %r10
	test	%rax, %rax
	jnz	1b
	jmp	4b
8:	mov	$\size, %edx
	lea	sosc_ring_slow_entry(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jnz	3b
	jmp	4b
	.cfi_endproc
.endm

	CALL_HANDLER sosc_h_call, 32, 0, entry_only_tail
	CALL_HANDLER sosc_h_call_six, 96, 1, entry_only_tail_six

// No return trampoline left: four registers saved, r10 = thread.
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

// With a capture program: C does everything.
FUNCTION sosc_h_program
	.cfi_startproc
	endbr64
	SAVE_FOUR
	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r11
	mov	%rsp, %rdi
	CALL_C	sosc_capture_entry
	mov	%rax, (%rsp)
	BACK	%r11
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	RESTORE_FOUR
	jmp	*%r11
	.cfi_endproc
