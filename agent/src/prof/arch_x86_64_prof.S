// SPDX-License-Identifier: Apache-2.0
//
// Hooks that compilers put into functions, for x86-64. __cyg_profile_func_enter and _exit are
// ordinary calls. mcount and __fentry__ keep every register, and are called with the stack in
// either phase. All return to where they are called: what would stand there without us (libc's) is
// not wanted. Here is what most calls need; the rest is in calls.c, which begins anew. A place in a
// frame or a table is written as calls.c says: a signal handler may come between any two of these.

#include "arch_x86_64.inc"

	.text

	.section .rodata
	.balign	8
factor:
	.quad	HINT_FACTOR

	.text

// \thread = this thread, which has a table of its own. Clobbers rax. A thread that ends calls has
// begun them: \check_tid, whether it is another one with the same thread pointer, is for those.
.macro PROF_THREAD thread, low, miss, check_tid=1
	mov	%fs:0, %rax
	mov	%rax, \thread
	shr	$12, \thread
	imul	$THREAD_FACTOR, \low, \low
	shr	$(32 - THREAD_BITS), \low
	shl	$PROF_THREAD_SHIFT, \thread
	add	sosc_prof_threads(%rip), \thread
	cmp	%rax, PROF_THREAD_KEY(\thread)
	jne	\miss
.if \check_tid
	mov	sosc_tid_offset(%rip), %rax
	mov	%fs:(%rax), %eax
	cmp	%eax, PROF_THREAD_TID(\thread)
	jne	\miss
.endif
.endm

// Counts a call of \function that returns to \from, of the thread in r11. Clobbers rax and r11.
.macro PROF_COUNT function, from, miss
	mov	PROF_THREAD_TABLE(%r11), %r11
	lea	(\from, \from, 4), %rax
	add	\function, %rax
	imul	factor(%rip), %rax
	shr	$(64 - PROF_NODE_BITS - PROF_NODE_SHIFT), %rax
	and	$-(1 << PROF_NODE_SHIFT), %rax
	add	%rax, %r11
	cmp	\from, PROF_NODES + PROF_NODE_KEY(%r11)
	jne	\miss
	cmp	\function, PROF_NODES + PROF_NODE_FUNCTION(%r11)
	jne	\miss
	incq	PROF_NODES + PROF_NODE_CALLS(%r11)
.endm

FUNCTION sosc_prof_quiet
	.cfi_startproc
	endbr64
	ret
	.cfi_endproc

// __cyg_profile_func_enter(rdi = function, rsi = its return address), counted alone
FUNCTION sosc_h_prof_count
	.cfi_startproc
	endbr64
	PROF_THREAD %r11, %r11d, 1f
	PROF_COUNT %rdi, %rsi, 1f
	ret
1:	mov	(%rsp), %rdx
	jmp	sosc_prof_count_slow
	.cfi_endproc

FUNCTION sosc_h_prof_bare
	.cfi_startproc
	endbr64
	mov	(%rsp), %rdi
	jmp	sosc_prof_bare
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

// mcount and __fentry__, counted alone. \slot: where the function's return address lies.
.macro COUNT_HOOK name, slot, hook
FUNCTION \name
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%rcx
	KEEP	%rdx
	mov	24(%rsp), %rcx
	mov	\slot, %rdx
	PROF_THREAD %r11, %r11d, 2f
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
	call	sosc_prof_count_hook
	BACK_ARGUMENTS
	jmp	1b
	.cfi_endproc
.endm

	COUNT_HOOK sosc_h_prof_mcount_count, 8(%rbp), 0
	COUNT_HOOK sosc_h_prof_fentry_count, 32(%rsp), 1

// ---- calls that are timed, or may be --------------------------------------------------

// The node of a call of the function in rdi, which returns to rsi, of the thread in rcx; r10 tells
// it from other open calls. rdx = its offset, r8 = the next frame, r9 = the table. Clobbers rax.
// \same: the call on top is at the same address; from there back to 80 if it is around this one.
.macro PROF_FIND_NODE slow, same
	mov	PROF_THREAD_NEXT(%rcx), %r8
	mov	PROF_THREAD_TABLE(%rcx), %r9
	mov	PROF_FRAME_PLACE - PROF_FRAME_SIZE(%r8), %rax
	lea	PROF_NEAR + 1(%rax, %r10), %rax
	cmp	$PROF_NEAR, %rax
	jae	81f
80:	mov	PROF_FRAME_KEY - PROF_FRAME_SIZE(%r8), %rax
82:	lea	(%rax, %rax, 4), %rdx
	add	%rdi, %rdx
	imul	factor(%rip), %rdx
	shr	$(64 - PROF_NODE_BITS - PROF_NODE_SHIFT), %rdx
	and	$-(1 << PROF_NODE_SHIFT), %rdx
	cmp	%rax, PROF_NODES + PROF_NODE_KEY(%r9, %rdx)
	jne	\slow
	cmp	%rdi, PROF_NODES + PROF_NODE_FUNCTION(%r9, %rdx)
	jne	\slow
	testb	$PROF_NODE_ODD, PROF_NODES + PROF_NODE_FLAGS(%r9, %rdx)
	jnz	\slow
	lea	PROF_FRAMES_END(%r9), %rax
	cmp	%rax, %r8
	je	\slow
	jmp	83f
	// none is open, or the one on top needs a closer look
81:	je	\same
	lea	PROF_FRAMES + PROF_FRAME_SIZE(%r9), %rax
	cmp	%rax, %r8
	jne	\slow
	mov	%rsi, %rax
	test	%rax, %rax
	jg	82b
	jmp	\slow
83:
.endm

// Counts and opens the call of the node at rdx, from \site. The clock is read last.
.macro PROF_OPEN site
	lea	PROF_FRAME_SIZE(%r8), %rax
	mov	%rax, PROF_THREAD_NEXT(%rcx)
	incq	PROF_NODES + PROF_NODE_CALLS(%r9, %rdx)
	mov	%rdx, %rax
	bts	$63, %rax
	mov	%rax, PROF_FRAME_KEY(%r8)
	mov	%rsi, PROF_FRAME_FROM(%r8)
	mov	%rdi, PROF_FRAME_FUNCTION(%r8)
	mov	\site, %rax
	mov	%rax, PROF_FRAME_SITE(%r8)
	not	%r10
	cmpq	$0, sosc_prof_mask(%rip)
	jne	83f
84:	cmpb	$0, sosc_clock_off(%rip)
	jne	85f
	mov	PROF_TABLE_DONE(%r9), %rax
	mov	%rax, PROF_FRAME_DONE(%r8)
	movl	$1, PROF_FRAME_FLAGS(%r8)
	mov	%r10, PROF_FRAME_PLACE(%r8)
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rdx, PROF_FRAME_START(%r8)
	mov	%rdx, PROF_TABLE_LAST(%r9)
	jmp	86f
83:	imul	$PROF_PHASE, %edx, %eax
	shr	$8, %eax
	add	PROF_NODES + PROF_NODE_CALLS(%r9, %rdx), %rax
	test	%rax, sosc_prof_mask(%rip)
	jz	84b
85:	movl	$0, PROF_FRAME_FLAGS(%r8)
	mov	%r10, PROF_FRAME_PLACE(%r8)
86:
.endm

// r8 = the time, where all calls are timed; else 0. Clobbers rax and rdx.
.macro PROF_NOW
	xor	%r8d, %r8d
	cmpq	$0, sosc_prof_mask(%rip)
	jne	80f
	cmpb	$0, sosc_clock_off(%rip)
	jne	80f
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rdx, %r8
80:
.endm

// r10 = the frame on top of the thread in rcx, r9 = the table.
.macro PROF_TOP
	mov	PROF_THREAD_NEXT(%rcx), %r10
	mov	PROF_THREAD_TABLE(%rcx), %r9
	sub	$PROF_FRAME_SIZE, %r10
.endm

// The call of the frame in r10 is over, at the time in r8. Clobbers rax, rdx and r8.
.macro PROF_CLOSE slow
	cmpq	$PROF_RETURNED, PROF_FRAME_PLACE - PROF_FRAME_SIZE(%r10)
	je	\slow
	mov	PROF_FRAME_FLAGS(%r10), %eax
	cmp	$1, %eax
	jne	81f
	test	%r8, %r8
	jz	82f
80:	mov	PROF_FRAME_KEY(%r10), %eax
	mov	%r8, %rdx
	sub	PROF_FRAME_START(%r10), %rdx
	jb	\slow
	add	%rdx, PROF_NODES + PROF_NODE_TOTAL(%r9, %rax)
	incl	PROF_NODES + PROF_NODE_TIMED(%r9, %rax)
	mov	%r8, PROF_TABLE_LAST(%r9)
	sub	PROF_TABLE_DONE(%r9), %rdx
	add	PROF_FRAME_DONE(%r10), %rdx
	jle	83f
	add	%rdx, PROF_NODES + PROF_NODE_SELF(%r9, %rax)
	add	%rdx, PROF_TABLE_DONE(%r9)
83:	movq	$0, PROF_FRAME_PLACE(%r10)
	mov	%r10, PROF_THREAD_NEXT(%rcx)
	jmp	84f
81:	test	%eax, %eax
	jz	83b
	jmp	\slow
82:	cmpb	$0, sosc_clock_off(%rip)
	jne	\slow
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rdx, %r8
	jmp	80b
84:
.endm

FUNCTION sosc_h_prof_enter
	.cfi_startproc
	endbr64
	lea	8(%rsp), %r10
	PROF_THREAD %rcx, %ecx, 9f
	PROF_FIND_NODE 9f, 7f
	PROF_OPEN (%rsp)
	ret
	// at the same address: the compiler has put this function into that one
7:	cmp	%rsi, PROF_FRAME_FROM - PROF_FRAME_SIZE(%r8)
	jne	9f
	mov	(%rsp), %rax
	cmp	%rax, PROF_FRAME_SITE - PROF_FRAME_SIZE(%r8)
	jne	80b
9:	mov	(%rsp), %rdx
	lea	8(%rsp), %rcx
	jmp	sosc_prof_enter
	.cfi_endproc

FUNCTION sosc_h_prof_exit
	.cfi_startproc
	endbr64
	PROF_NOW
	PROF_THREAD %rcx, %ecx, 9f, 0
	PROF_TOP
	cmp	%rdi, PROF_FRAME_FUNCTION(%r10)
	jne	9f
	cmp	%rsi, PROF_FRAME_FROM(%r10)
	jne	9f
	cmpq	$PROF_RETURNED, PROF_FRAME_PLACE(%r10)
	jbe	9f
	PROF_CLOSE 9f
	ret
9:	lea	8(%rsp), %rdx
	mov	%r8, %rcx
	jmp	sosc_prof_exit
	.cfi_endproc

// mcount and __fentry__. \slot: where the function's return address lies.
.macro CALL_HOOK name, slot, hook
FUNCTION \name
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%rcx
	KEEP_ARGUMENTS
	mov	64(%rsp), %rdi
	lea	\slot, %r10
.if \hook == 1
	cmpb	$0x41, (%rdi) // "pop %r10": see sosc_prof_return_slot
	jne	1f
	cmpb	$0x5a, 1(%rdi)
	je	9f
1:
.endif
	mov	(%r10), %rsi
	PROF_THREAD %rcx, %ecx, 9f
	PROF_FIND_NODE 9f, 9f
	mov	%r11, %rax // as FIND_SITE
	shr	$3, %rax
	xor	%rsi, %rax
	imul	factor(%rip), %rax
	shr	$(64 - HINT_BITS), %rax
	lea	sosc_hints(%rip), %rdi
	mov	(%rdi, %rax, 8), %rax
	mov	64(%rsp), %rdi
	cmp	%rsi, SOSC_DISTANCE + SITE_RETURN(%rax)
	jne	9f
	cmp	%r11, SOSC_DISTANCE + SITE_CELL(%rax)
	jne	9f
	add	$SITE_RETURNS, %rax
	mov	%rax, (%r10)
	PROF_OPEN %rdi
8:	BACK_ARGUMENTS
	BACK	%rcx
	BACK	%rax
	ret
9:	.cfi_adjust_cfa_offset 64
	mov	64(%rsp), %rdi
	lea	\slot, %rsi
	mov	%r11, %rdx
	mov	$\hook, %ecx
	call	sosc_prof_called
	jmp	8b
	.cfi_endproc
.endm

	CALL_HOOK sosc_h_prof_mcount, 8(%rbp), 0
	CALL_HOOK sosc_h_prof_fentry, 72(%rsp), 1

// A function whose return address was replaced has returned. It was called by a call of its
// caller's: one more return would be one too many for the processor's own stack of them.
FUNCTION sosc_x_prof
	EXIT_START
	KEEP	%r8
	KEEP	%r9
	PROF_NOW
	PROF_THREAD %rcx, %ecx, 9f, 0
	PROF_TOP
	mov	SOSC_DISTANCE + SITE_RETURN(%r11), %rax
	cmp	%rax, PROF_FRAME_FROM(%r10)
	jne	9f
	lea	RETURN_SLOT + 16(%rsp), %rax
	not	%rax
	cmp	%rax, PROF_FRAME_PLACE(%r10)
	jne	9f
	testb	$SITE_FLAG_OLD, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jnz	9f
	PROF_CLOSE 9f
8:	BACK	%r9
	BACK	%r8
	RESTORE_FOUR
	pop	%r11
	.cfi_def_cfa %rsp, 0
	.cfi_register 16, %r11
	notrack jmp *%r11
9:	.cfi_def_cfa %rsp, 56
	.cfi_offset 16, -8
	KEEP	%rsi
	KEEP	%rdi
	mov	%r11, %rdi
	lea	RETURN_SLOT + 32(%rsp), %rsi
	mov	%r8, %rdx
	call	sosc_prof_returned
	BACK	%rdi
	BACK	%rsi
	jmp	8b
	.cfi_endproc

// __cyg_profile_func_enter and the like of the program's own: it is called as well.
.macro OWN_HOOK name, function
FUNCTION \name
	.cfi_startproc
	endbr64
	KEEP	%rdi
	KEEP	%rsi
	KEEP	%r11
	OWN_ARGUMENTS \function
	call	\function
	BACK	%r11
	BACK	%rsi
	BACK	%rdi
	jmp	*CELL_ORIGINAL(%r11)
	.cfi_endproc
.endm

.macro OWN_ARGUMENTS function
.ifc \function, sosc_prof_bare
	mov	24(%rsp), %rdi
.else
.ifc \function, sosc_prof_exit
	lea	32(%rsp), %rdx
	xor	%ecx, %ecx
.else
	mov	24(%rsp), %rdx
	lea	32(%rsp), %rcx
.endif
.endif
.endm

	OWN_HOOK sosc_h_prof_own_count, sosc_prof_count_slow
	OWN_HOOK sosc_h_prof_own_enter, sosc_prof_enter
	OWN_HOOK sosc_h_prof_own_exit, sosc_prof_exit
	OWN_HOOK sosc_h_prof_own_bare, sosc_prof_bare

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
