// SPDX-License-Identifier: Apache-2.0
//
// Calls that the program itself counts, for x86-64 (System V psABI, section 3.2): a page of thunks,
// and the handler to which they lead. The handler has an ordinary frame, calls the program's
// function with a copy of the arguments on the stack, and keeps all registers that calls and
// results use. It touches no vector register.

#include "base/arch_x86_64.inc"

	.text

// the fields of struct sosc_tally_call, relative to rbp
#define CALL(field) (field - TALLY_CALL_SIZE)(%rbp)

FUNCTION sosc_h_tally
	.cfi_startproc
	endbr64
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	sub	$TALLY_CALL_SIZE, %rsp
	mov	%rdi, CALL(0)
	mov	%rsi, CALL(8)
	mov	%rdx, CALL(16)
	mov	%rcx, CALL(24)
	mov	%r8, CALL(32)
	mov	%r9, CALL(40)
	mov	%rax, CALL(TALLY_CALL_VECTORS)
	mov	%r10, CALL(TALLY_CALL_CHAIN)
	mov	%r11, CALL(TALLY_CALL_SLOT)
	lea	16(%rbp), %rax
	mov	%rax, CALL(TALLY_CALL_STACK)
	mov	%rsp, %rdi
	call	sosc_tally_entry
	mov	%rax, %r11
	mov	CALL(TALLY_CALL_WORDS), %rcx
	jmp	2f
1:	push	8(%rbp, %rcx, 8)
	dec	%rcx
2:	test	%rcx, %rcx
	jnz	1b
	mov	CALL(0), %rdi
	mov	CALL(8), %rsi
	mov	CALL(16), %rdx
	mov	CALL(24), %rcx
	mov	CALL(32), %r8
	mov	CALL(40), %r9
	mov	CALL(TALLY_CALL_VECTORS), %rax
	mov	CALL(TALLY_CALL_CHAIN), %r10
	cmpq	$0, CALL(TALLY_CALL_SEEN)
	je	3f
	call	*%r11
	mov	%rax, CALL(TALLY_CALL_RESULT)
	mov	%rdx, CALL(TALLY_CALL_RESULT + 8)
	lea	-TALLY_CALL_SIZE(%rbp), %rsp
	mov	%rsp, %rdi
	call	sosc_tally_exit
	mov	CALL(TALLY_CALL_RESULT), %rax
	mov	CALL(TALLY_CALL_RESULT + 8), %rdx
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	.cfi_restore_state
3:	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	jmp	*%r11
	.cfi_endproc

	.section .rodata
	.balign	64
	.globl	sosc_tally_page
	.hidden	sosc_tally_page
sosc_tally_page: // copied to where it runs, with a struct sosc_tally_slot for each thunk behind it
	.set	thunk, 0
	.rept	4096 / TALLY_THUNK_SIZE
	endbr64
	lea	4096 + thunk * (TALLY_SLOT_SIZE - TALLY_THUNK_SIZE) - 11(%rip), %r11
	jmp	*CELL_HANDLER(%r11)
	.balign	TALLY_THUNK_SIZE, 0xcc
	.set	thunk, thunk + 1
	.endr
