// SPDX-License-Identifier: Apache-2.0
//
// Hooks that compilers put into functions, for x86-64. __cyg_profile_func_enter and _exit are
// ordinary calls. mcount and __fentry__ keep every register, and may be called with any stack
// alignment. All of them return to their caller, and libc's functions, which they replace, are not
// called. This file handles the usual case. Everything else is done in calls.c, which begins anew.
// Frames and tables are written in the same order as there, since a signal handler may run between
// any two instructions.

#include "prof/arch_x86_64_prof.inc"

	.text

	.section .rodata
	.balign	8
factor:
	.quad	HINT_FACTOR

	.text

// Counts a call of \function that returns to \from, for the thread in r11. Clobbers rax and r11. If
// a signal handler has forked since PROF_THREAD, there is no table.
.macro PROF_COUNT function, from, miss
	mov	PROF_THREAD_TABLE(%r11), %r11
	test	%r11, %r11
	jz	\miss
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

FUNCTION sosc_prof_entry_quiet
	HOOK_START ENTRY_ABOVE
	HOOK_RETURN ENTRY_ABOVE
	.cfi_endproc

// __cyg_profile_func_enter(rdi = function, rsi = its return address), if calls are only counted
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

// mcount and __fentry__, if calls are only counted. \slot: address of the function's return
// address.
.macro COUNT_HOOK name, slot, hook, above=0
FUNCTION \name
	HOOK_START \above
	KEEP	%rax
	KEEP	%rcx
	KEEP	%rdx
	mov	24 + \above(%rsp), %rcx
	mov	\slot, %rdx
	PROF_THREAD %r11, %r11d, 2f
	PROF_COUNT %rcx, %rdx, 2f
1:	BACK	%rdx
	BACK	%rcx
	BACK	%rax
	HOOK_RETURN \above
2:	.cfi_adjust_cfa_offset 24 + \above
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
	COUNT_HOOK sosc_h_prof_entry_count, 32 + ENTRY_ABOVE(%rsp), 1, ENTRY_ABOVE

// ---- calls that are timed, or some of them --------------------------------------------

// Finds the node of a call of the function in rdi, which returns to rsi, for the thread in rcx. r10
// identifies the call among the open calls. Results: rdx = the node's offset, r9 = the table, r8 =
// the frame that was taken for the call, with key and function filled in. Clobbers rax. The frame
// has usually had the same node before, so that node is tried first. The frame is taken before it
// is read, as a signal handler would use it otherwise. No frame ever had a node with a flag of
// PROF_NODE_ODD, and the last frame never had any node. So neither has to be tested on this path.
// If a signal handler has forked since PROF_THREAD, there is no frame.
.macro PROF_FIND_NODE slow
	mov	PROF_THREAD_TABLE(%rcx), %r9
	mov	PROF_THREAD_NEXT(%rcx), %r8
	test	%r8, %r8
	jz	\slow
	mov	PROF_FRAME_PLACE - PROF_FRAME_SIZE(%r8), %rax
	lea	PROF_NEAR + 1(%rax, %r10), %rax
	cmp	$PROF_NEAR, %rax
	jae	82f
80:	mov	PROF_FRAME_KEY - PROF_FRAME_SIZE(%r8), %rax
81:	lea	PROF_FRAME_SIZE(%r8), %rdx
	mov	%rdx, PROF_THREAD_NEXT(%rcx)
	mov	PROF_FRAME_KEY(%r8), %edx
	and	$PROF_NODE_OFFSETS, %edx
	cmp	%rax, PROF_NODES + PROF_NODE_KEY(%r9, %rdx)
	jne	83f
	cmp	%rdi, PROF_NODES + PROF_NODE_FUNCTION(%r9, %rdx)
	jne	83f
84:
.endm

// The rest of PROF_FIND_NODE, out of the usual path. \same: the label for a call on top at the same
// address. The code there jumps back to 80 if the call on top is around this one.
.macro PROF_FIND_MORE slow, same
	// no call is open, or the call on top has to be examined
82:	je	\same
	lea	PROF_FRAMES + PROF_FRAME_SIZE(%r9), %rax
	cmp	%rax, %r8
	jne	\slow
	mov	%rsi, %rax
	test	%rax, %rax
	jg	81b
	jmp	\slow
83:	mov	%r8, PROF_THREAD_NEXT(%rcx)
	lea	(%rax, %rax, 4), %rdx
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
	lea	PROF_FRAMES_END - PROF_FRAME_SIZE(%r9), %rax
	cmp	%rax, %r8
	je	\slow
	lea	PROF_FRAME_SIZE(%r8), %rax
	mov	%rax, PROF_THREAD_NEXT(%rcx)
	mov	%rdx, %rax
	bts	$63, %rax
	mov	%rax, PROF_FRAME_KEY(%r8)
	mov	%rdi, PROF_FRAME_FUNCTION(%r8)
	jmp	84b
.endm

// Begins the call of the frame at r8, which is timed. The clock is read last. Goes to \long if the
// thread may have waited for a processor.
.macro PROF_BEGIN_TIMED long
	mov	PROF_TABLE_DONE(%r9), %rax
	mov	%rax, PROF_FRAME_DONE(%r8)
	movl	$1, PROF_FRAME_FLAGS(%r8)
	mov	%r10, PROF_FRAME_PLACE(%r8)
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rdx, PROF_FRAME_START(%r8)
	PROF_IF_LONG %rdx, %r9, %rax, \long
	mov	%rdx, PROF_TABLE_LAST(%r9)
.endm

.macro PROF_BEGIN_UNTIMED
	movl	$0, PROF_FRAME_FLAGS(%r8)
	mov	%r10, PROF_FRAME_PLACE(%r8)
.endm

// Counts the call of the node at rdx, from \site, and opens it in the frame at r8. \all: all calls
// are timed, otherwise some.
.macro PROF_OPEN site, all, long
	incq	PROF_NODES + PROF_NODE_CALLS(%r9, %rdx)
	mov	%rsi, PROF_FRAME_FROM(%r8)
	mov	\site, %rax
	mov	%rax, PROF_FRAME_SITE(%r8)
	not	%r10
.if \all
	cmpb	$0, sosc_clock_off(%rip)
	jne	85f
	PROF_BEGIN_TIMED \long
.else
	imul	$PROF_PHASE, %edx, %eax
	shr	$8, %eax
	add	PROF_NODES + PROF_NODE_CALLS(%r9, %rdx), %rax
	test	%rax, sosc_prof_mask(%rip)
	jz	85f
86:	PROF_BEGIN_UNTIMED
.endif
87:
.endm

// The rest of PROF_OPEN, out of the usual path.
.macro PROF_OPEN_MORE all, long
.if \all
85:	PROF_BEGIN_UNTIMED
.else
85:	cmpb	$0, sosc_clock_off(%rip)
	jne	86b
	PROF_BEGIN_TIMED \long
.endif
	jmp	87b
.endm

// r8 = the time, or 0 if it cannot be read. Clobbers rax and rdx.
.macro PROF_NOW
	xor	%r8d, %r8d
	cmpb	$0, sosc_clock_off(%rip)
	jne	80f
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rdx, %r8
80:
.endm

// r10 = the frame of the innermost call of the thread in rcx, r9 = the table.
.macro PROF_TOP slow
	mov	PROF_THREAD_TABLE(%rcx), %r9
	mov	PROF_THREAD_NEXT(%rcx), %r10
	sub	$PROF_FRAME_SIZE, %r10
	jb	\slow
.endm

// Ends the call of the frame in r10, which was timed, at the time in r8. Clobbers rax and rdx.
.macro PROF_END_TIMED slow, closed
	mov	PROF_FRAME_KEY(%r10), %eax
	and	$PROF_NODE_OFFSETS, %eax // shared memory: it may hold anything
	PROF_IF_LONG %r8, %r9, %rdx, \slow
	mov	%r8, %rdx
	sub	PROF_FRAME_START(%r10), %rdx
	jb	\slow
	add	%rdx, PROF_NODES + PROF_NODE_TOTAL(%r9, %rax)
	incl	PROF_NODES + PROF_NODE_TIMED(%r9, %rax)
	mov	%r8, PROF_TABLE_LAST(%r9)
	sub	PROF_TABLE_DONE(%r9), %rdx
	add	PROF_FRAME_DONE(%r10), %rdx
	jle	\closed
	add	%rdx, PROF_NODES + PROF_NODE_SELF(%r9, %rax)
	add	%rdx, PROF_TABLE_DONE(%r9)
.endm

// Ends the call of the frame in r10. \all: all calls are timed, and r8 = the time. Otherwise only
// some are timed, r8 = 0, and the clock is read here if the call was timed. Clobbers rax, rdx and
// r8.
.macro PROF_CLOSE slow, all
	cmpq	$PROF_RETURNED, PROF_FRAME_PLACE - PROF_FRAME_SIZE(%r10)
	je	\slow
	mov	PROF_FRAME_FLAGS(%r10), %eax
.if \all
	cmp	$1, %eax
	jne	82f
	test	%r8, %r8
	jz	\slow
	PROF_END_TIMED \slow, 83f
.else
	test	%eax, %eax
	jnz	82f
.endif
83:	movq	$0, PROF_FRAME_PLACE(%r10)
	mov	%r10, PROF_THREAD_NEXT(%rcx)
.endm

// The rest of PROF_CLOSE, out of the usual path.
.macro PROF_CLOSE_MORE slow, all
.if \all
82:	test	%eax, %eax
	jz	83b
	jmp	\slow
.else
82:	cmp	$1, %eax
	jne	\slow
	PROF_NOW
	test	%r8, %r8
	jz	\slow
	PROF_END_TIMED \slow, 83b
	jmp	83b
.endif
.endm

// __cyg_profile_func_enter(rdi = function, rsi = its return address). \all: all calls are timed,
// otherwise some.
.macro ENTER_HOOK name, all
FUNCTION \name
	.cfi_startproc
	endbr64
	lea	8(%rsp), %r10
	PROF_THREAD %rcx, %ecx, 9f
	PROF_FIND_NODE 9f
	PROF_OPEN (%rsp), \all, 6f
	ret
	PROF_OPEN_MORE \all, 6f
6:	mov	%r9, %rdi
	mov	%r8, %rsi
	jmp	sosc_prof_begin_late
	PROF_FIND_MORE 9f, 7f
	// at the same address: the compiler has inlined this function into the one on top
7:	cmp	%rsi, PROF_FRAME_FROM - PROF_FRAME_SIZE(%r8)
	jne	9f
	mov	(%rsp), %rax
	cmp	%rax, PROF_FRAME_SITE - PROF_FRAME_SIZE(%r8)
	jne	80b
9:	mov	(%rsp), %rdx
	lea	8(%rsp), %rcx
	jmp	sosc_prof_enter
	.cfi_endproc
.endm

	ENTER_HOOK sosc_h_prof_enter, 1
	ENTER_HOOK sosc_h_prof_enter_some, 0

// __cyg_profile_func_exit(rdi = function, rsi = its return address)
.macro EXIT_HOOK name, all
FUNCTION \name
	.cfi_startproc
	endbr64
.if \all
	PROF_NOW
.else
	xor	%r8d, %r8d
.endif
	PROF_THREAD %rcx, %ecx, 9f, 0
	PROF_TOP 9f
	cmp	%rdi, PROF_FRAME_FUNCTION(%r10)
	jne	9f
	cmp	%rsi, PROF_FRAME_FROM(%r10)
	jne	9f
	cmpq	$PROF_RETURNED, PROF_FRAME_PLACE(%r10)
	jbe	9f
	PROF_CLOSE 9f, \all
	ret
	PROF_CLOSE_MORE 9f, \all
9:	lea	8(%rsp), %rdx
	mov	%r8, %rcx
	jmp	sosc_prof_exit
	.cfi_endproc
.endm

	EXIT_HOOK sosc_h_prof_exit, 1
	EXIT_HOOK sosc_h_prof_exit_some, 0

// mcount and __fentry__. \slot: address of the function's return address.
.macro CALL_HOOK name, slot, hook, all, above=0
FUNCTION \name
	HOOK_BEGIN \slot, \hook, \above, 9f
	mov	(%r10), %rsi
	mov	%r11, %rax // as FIND_SITE
	shr	$3, %rax
	xor	%rsi, %rax
	imul	factor(%rip), %rax
	shr	$(64 - HINT_BITS), %rax
	lea	sosc_hints(%rip), %rcx
	mov	(%rcx, %rax, 8), %rax
	cmp	%rsi, SOSC_DISTANCE + SITE_RETURN(%rax)
	jne	9f
	cmp	%r11, SOSC_DISTANCE + SITE_CELL(%rax)
	jne	9f
	mov	%rax, %r11
	PROF_THREAD %rcx, %ecx, 7f
	PROF_FIND_NODE 7f
	lea	SITE_RETURNS(%r11), %rax
	mov	%rax, (%r10)
	PROF_OPEN %rdi, \all, 6f
8:	BACK_ARGUMENTS
	BACK	%rcx
	BACK	%rax
	HOOK_RETURN \above
	.cfi_adjust_cfa_offset 64 + \above
	PROF_OPEN_MORE \all, 6f
6:	mov	%r9, %rdi
	mov	%r8, %rsi
	call	sosc_prof_begin_late
	jmp	8b
	PROF_FIND_MORE 7f, 7f
7:	mov	SOSC_DISTANCE + SITE_CELL(%r11), %r11
9:	mov	64 + \above(%rsp), %rdi
	lea	\slot, %rsi
	mov	%r11, %rdx
	mov	$\hook, %ecx
	call	sosc_prof_called
	jmp	8b
	.cfi_endproc
.endm

	CALL_HOOK sosc_h_prof_mcount, 8(%rbp), 0, 1
	CALL_HOOK sosc_h_prof_mcount_some, 8(%rbp), 0, 0
	CALL_HOOK sosc_h_prof_fentry, 72(%rsp), 1, 1
	CALL_HOOK sosc_h_prof_fentry_some, 72(%rsp), 1, 0
	CALL_HOOK sosc_h_prof_entry, 72 + ENTRY_ABOVE(%rsp), 1, 1, ENTRY_ABOVE
	CALL_HOOK sosc_h_prof_entry_some, 72 + ENTRY_ABOVE(%rsp), 1, 0, ENTRY_ABOVE

// A function whose return address was replaced has returned.
FUNCTION sosc_x_prof
	PROF_EXIT_START
	KEEP	%r8
	KEEP	%r9
	xor	%r8d, %r8d
	cmpq	$0, sosc_prof_mask(%rip)
	jne	7f
	PROF_NOW
7:	PROF_THREAD %rcx, %ecx, 9f, 0
	PROF_TOP 9f
	mov	SOSC_DISTANCE + SITE_RETURN(%r11), %rax
	cmp	%rax, PROF_FRAME_FROM(%r10)
	jne	9f
	lea	EXIT_SLOT + 16(%rsp), %rax
	not	%rax
	cmp	%rax, PROF_FRAME_PLACE(%r10)
	jne	9f
	testb	$SITE_FLAG_OLD, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jnz	9f
	test	%r8, %r8
	jz	6f
	PROF_CLOSE 9f, 1
8:	BACK	%r9
	BACK	%r8
	PROF_EXIT_END
	.cfi_def_cfa %rsp, 64
	PROF_CLOSE_MORE 9f, 1
6:	PROF_CLOSE 9f, 0
	jmp	8b
	PROF_CLOSE_MORE 9f, 0
9:	KEEP	%rsi
	KEEP	%rdi
	mov	%r11, %rdi
	lea	EXIT_SLOT + 32(%rsp), %rsi
	mov	%r8, %rdx
	call	sosc_prof_returned
	BACK	%rdi
	BACK	%rsi
	jmp	8b
	.cfi_endproc

	OWN_HOOK sosc_h_prof_own_count, sosc_prof_count_slow, enter
	OWN_HOOK sosc_h_prof_own_enter, sosc_prof_enter, enter
	OWN_HOOK sosc_h_prof_own_exit, sosc_prof_exit, exit
	OWN_HOOK sosc_h_prof_own_bare, sosc_prof_bare, bare

// ---- empty functions with hooks, to measure what the hooks cost ------------------------

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
