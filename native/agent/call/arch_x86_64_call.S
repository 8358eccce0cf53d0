// SPDX-License-Identifier: Apache-2.0
//
// Entry handlers for x86-64 (System V psABI, section 3.2).
//
// An entry trampoline loads the address of its cell into r11, the one register that a call through
// a PLT may destroy, and jumps to the cell's handler. Every handler keeps all other registers
// except the flags, touches no vector register, and leaves the stack as it was. errno is read,
// never written.
//
// A handler that has to see the exit enters the function through the return trampoline of the call
// site. The trampoline takes the return address off the stack and calls the function itself, so
// that arguments stay where they are and call and return stay paired. Then it jumps to the exit
// handler, which puts the return address back and returns.
//
// The unwind rules hold at every instruction, because a signal or an asynchronous cancellation may
// unwind from anywhere.

#include "base/arch_x86_64.inc"

	.text

// Calls the C function in rax and keeps every register but rax. The function's first argument is
// r11, its second r10.
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

// Calls the C function in rax with the arguments r11 (cell), r10 (thread) and rdx: the bytes wanted
// in the ring, a return address, or a stack address. The result, or 0, is in rax.
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

// Goes on to where another cell leads. `original` is the address of that cell.
FUNCTION sosc_h_alias
	.cfi_startproc
	endbr64
	mov	CELL_ORIGINAL(%r11), %r11
	jmp	*CELL_ORIGINAL(%r11)
	.cfi_endproc

// ---- handlers in C -----------------------------------------------------------

// Entry handler of an instrument with handlers in C. sosc_layer_entry looks at the arguments, may
// change them, and returns where to go on: the function, or a return trampoline if the instrument
// wants the result.
FUNCTION sosc_h_layer
	.cfi_startproc
	endbr64
	SAVE_FOUR
	SAVE_REST
	mov	%rsp, %rdi
	CALL_C	sosc_layer_entry
	mov	%rax, (%rsp)
	RESTORE_REST
	RESTORE_FOUR
	jmp	*%r11
	.cfi_endproc

// Exit handler of an instrument with handlers in C.
FUNCTION sosc_x_layer
	EXIT_START
	SAVE_REST
	mov	%rsp, %rdi
	CALL_C	sosc_layer_exit
	RESTORE_REST
	RESTORE_FOUR
	ret
	.cfi_endproc

// Runs in place of a function that is not called. The result is already in its register.
FUNCTION sosc_return_now
	.cfi_startproc
	endbr64
	ret
	.cfi_endproc

// ---- exits that no instrument sees -----------------------------------------------

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

// ---- calibration -----------------------------------------------------------

FUNCTION sosc_empty
	.cfi_startproc
	endbr64
	ret
	.cfi_endproc

// Calls the function in rdi, rsi times, with the argument 0. Returns the ticks that it took.
.macro CALLS name, between
FUNCTION \name
	.cfi_startproc
	KEEP	%rbx
	KEEP	%rbp
	KEEP	%r12
	mov	%rdi, %rbx
	mov	%rsi, %rbp
	lfence
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	mov	%rax, %r12
1:	\between
	xor	%edi, %edi
	call	*%rbx
	dec	%rbp
	jnz	1b
	lfence
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	sub	%r12, %rax
	BACK	%r12
	BACK	%rbp
	BACK	%rbx
	ret
	.cfi_endproc
.endm

	CALLS	sosc_call_often
	// each call begins after the previous call is over
	CALLS	sosc_call_apart, lfence
