// SPDX-License-Identifier: Apache-2.0
//
// Hooks that compilers put into functions, for x86-64. __cyg_profile_func_enter and _exit are
// ordinary calls: in C, but for those that are only counted. mcount and __fentry__ keep every
// register, and are called with the stack in either phase. All return to where they are called:
// what would stand there without us (libc's) is not wanted.

#include "arch_x86_64.inc"

	.text

	.section .rodata
	.balign	8
factor:
	.quad	HINT_FACTOR

	.text

// r11 = this thread's table. Clobbers rax.
.macro PROF_FIND_TABLE miss
	mov	%fs:0, %rax
	mov	%rax, %r11
	shr	$12, %r11
	imul	$THREAD_FACTOR, %r11d, %r11d
	shr	$(32 - THREAD_BITS), %r11d
	shl	$PROF_THREAD_SHIFT, %r11
	add	sosc_prof_threads(%rip), %r11
	cmp	%rax, PROF_THREAD_KEY(%r11)
	jne	\miss
	mov	sosc_tid_offset(%rip), %rax
	mov	%fs:(%rax), %eax
	cmp	%eax, PROF_THREAD_TID(%r11)
	jne	\miss
	mov	PROF_THREAD_TABLE(%r11), %r11
	test	%r11, %r11
	jz	\miss
.endm

// Counts a call of \function that returns to \from in the table in r11. Clobbers rax and r11.
.macro PROF_COUNT function, from, miss
	lea	(\from, \from, 4), %rax
	add	\function, %rax
	imul	factor(%rip), %rax
	shr	$(64 - PROF_NODE_BITS), %rax
	shl	$PROF_NODE_SHIFT, %rax
	add	%rax, %r11
	cmp	\from, PROF_HEAD + PROF_NODE_KEY(%r11)
	jne	\miss
	cmp	\function, PROF_HEAD + PROF_NODE_FUNCTION(%r11)
	jne	\miss
	incq	PROF_HEAD + PROF_NODE_CALLS(%r11)
.endm

FUNCTION sosc_prof_quiet
	.cfi_startproc
	endbr64
	ret
	.cfi_endproc

// __cyg_profile_func_enter(rdi = function, rsi = its return address)
FUNCTION sosc_h_prof_count
	.cfi_startproc
	endbr64
	PROF_FIND_TABLE 1f
	PROF_COUNT %rdi, %rsi, 1f
	ret
1:	mov	(%rsp), %rdx
	jmp	sosc_prof_count_slow
	.cfi_endproc

.macro KEEP_ARGUMENTS
	KEEP	%rdx
	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r10
.endm

.macro BACK_ARGUMENTS
	BACK	%r10
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	BACK	%rdx
.endm

// Counts alone. \slot: where the function's return address lies, from the hook's entry on.
.macro COUNT_HOOK name, slot, hook
FUNCTION \name
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%rcx
	KEEP	%rdx
	mov	24(%rsp), %rcx
	mov	\slot, %rdx
	PROF_FIND_TABLE 2f
	PROF_COUNT %rcx, %rdx, 2f
1:	BACK	%rdx
	BACK	%rcx
	BACK	%rax
	ret
2:	.cfi_adjust_cfa_offset 24
	lea	\slot, %rax
	KEEP_ARGUMENTS
	mov	%rcx, %rdi
	mov	%rax, %rsi
	mov	$\hook, %edx
	CALL_C	sosc_prof_count_hook
	BACK_ARGUMENTS
	jmp	1b
	.cfi_endproc
.endm

	COUNT_HOOK sosc_h_prof_mcount_count, 8(%rbp), 0
	COUNT_HOOK sosc_h_prof_fentry_count, 32(%rsp), 1

// Calls, and their returns.
.macro CALL_HOOK name, slot, hook
FUNCTION \name
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%rcx
	KEEP_ARGUMENTS
	mov	64(%rsp), %rdi
	lea	\slot, %rsi
	mov	%r11, %rdx
	mov	$\hook, %ecx
	call	sosc_prof_called
	BACK_ARGUMENTS
	BACK	%rcx
	BACK	%rax
	ret
	.cfi_endproc
.endm

	CALL_HOOK sosc_h_prof_mcount, 8(%rbp), 0
	CALL_HOOK sosc_h_prof_fentry, 72(%rsp), 1

// A function whose return address was replaced has returned. It was called by a call of its
// caller's: one more return would be one too many for the processor's own stack of them.
FUNCTION sosc_x_prof
	EXIT_START
	SAVE_REST
	mov	%rsp, %rdi
	call	sosc_prof_returned
	RESTORE_REST
	RESTORE_FOUR
	pop	%r11
	.cfi_def_cfa %rsp, 0
	.cfi_register 16, %r11
	notrack jmp *%r11
	.cfi_endproc

// ---- empty functions that report themselves, to measure what that costs ---------------

FUNCTION sosc_prof_fake_mcount
	.cfi_startproc
	endbr64
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	call	*sosc_prof_fake_hooks(%rip)
	pop	%rbp
	.cfi_def_cfa_offset 8
	.cfi_restore %rbp
	ret
	.cfi_endproc

FUNCTION sosc_prof_fake_fentry
	.cfi_startproc
	endbr64
	call	*sosc_prof_fake_hooks(%rip)
	ret
	.cfi_endproc

FUNCTION sosc_prof_fake_cyg
	.cfi_startproc
	endbr64
	mov	(%rsp), %rsi
	lea	sosc_prof_fake_cyg(%rip), %rdi
	call	*sosc_prof_fake_hooks(%rip)
	mov	(%rsp), %rsi
	lea	sosc_prof_fake_cyg(%rip), %rdi
	call	*sosc_prof_fake_hooks + 8(%rip)
	ret
	.cfi_endproc
