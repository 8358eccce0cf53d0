// SPDX-License-Identifier: Apache-2.0
//
// Hooks of calls that are logged, for x86-64: see arch_x86_64_prof.S, and log.c for the other
// cases. A call's frame holds all contents of its unit, so that the return can write the unit
// without a call into C.

#include "prof/arch_x86_64_prof.inc"

#define REPORTED (15 << 28) // stream.h, enum sosc_unit_type
#define TIMED 1 // prof.h, enum sosc_prof_frame_flag
#define CYG 2 // enum sosc_prof_hook

	.text

// Finds the call around a call that returns to rsi, for the thread in rcx. r10 identifies the new
// call among the open calls. Results: rdx = the time when the call around it began, r11 = flags and
// commit word for the new frame, r8 = the new frame, which is the next free one, r9 = the table.
// Clobbers rax. If a signal handler has forked since PROF_THREAD, there is no frame. \hook: enum
// sosc_prof_hook.
.macro LOG_AROUND hook, slow, closer
	mov	PROF_THREAD_TABLE(%rcx), %r9
	mov	PROF_THREAD_NEXT(%rcx), %r8
	test	%r8, %r8
	jz	\slow
	mov	PROF_FRAME_PLACE - PROF_FRAME_SIZE(%r8), %rax
	lea	PROF_NEAR + 1(%rax, %r10), %rax
	cmp	$PROF_NEAR, %rax
	jae	\closer
80:	mov	PROF_FRAME_START - PROF_FRAME_SIZE(%r8), %rdx
	movabs	$((REPORTED | \hook) & 0xffffffff) << 32 | TIMED, %r11
	lea	PROF_FRAMES_END(%r9), %rax
	cmp	%rax, %r8
	je	\slow
81:
.endm

// The same if no call is open. Goes on at 81 of LOG_AROUND.
.macro LOG_ROOT hook, slow
	lea	PROF_FRAMES + PROF_FRAME_SIZE(%r9), %rax
	cmp	%rax, %r8
	jne	\slow
	mov	%rsi, %rdx
	movabs	$((REPORTED | REPORTED_ROOT | \hook) & 0xffffffff) << 32 | TIMED, %r11
	jmp	81b
.endm

// Opens the call, whose hook returns to \site. Signal handlers see the frame as an open call only
// after its clock has been read. Goes to \long before that if the thread may have waited for a
// processor: then the frame's place is in r10.
.macro LOG_OPEN site, long
	lea	PROF_FRAME_SIZE(%r8), %rax
	mov	%rax, PROF_THREAD_NEXT(%rcx)
	mov	%rdx, PROF_FRAME_KEY(%r8)
	mov	%r11, PROF_FRAME_FLAGS(%r8)
	mov	%rsi, PROF_FRAME_FROM(%r8)
	mov	%rdi, PROF_FRAME_FUNCTION(%r8)
	mov	\site, %rax
	mov	%rax, PROF_FRAME_SITE(%r8)
	not	%r10
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rdx, PROF_FRAME_START(%r8)
	PROF_IF_LONG %rdx, %r9, %rax, \long
	mov	%rdx, PROF_TABLE_LAST(%r9)
	mov	%r10, PROF_FRAME_PLACE(%r8)
.endm

// r8 = the time, or 0 if it must not be read. Clobbers rax and rdx.
.macro LOG_NOW slow
	xor	%r8d, %r8d
	cmpb	$0, sosc_clock_off(%rip)
	jne	\slow
	rdtsc
	shl	$32, %rdx
	or	%rax, %rdx
	mov	%rdx, %r8
.endm

// r10 = the frame of the innermost call of the thread in rcx, rdx = the table.
.macro LOG_TOP slow
	mov	PROF_THREAD_TABLE(%rcx), %rdx
	mov	PROF_THREAD_NEXT(%rcx), %r10
	sub	$PROF_FRAME_SIZE, %r10
	jb	\slow
.endm

// Ends the call of the frame in r10, of the thread in rcx, at the time in r8, and writes its unit.
// rdx = the table. At \slow everything is unchanged, except for rax, rdx, r9 and r10. Goes to \full
// if there is no room for the unit. Goes to \taken, and from there back to 80, if a signal handler
// may have taken the unit in rax. Clobbers r8, too.
.macro LOG_CLOSE slow, full, taken
	cmpq	$PROF_RETURNED, PROF_FRAME_PLACE - PROF_FRAME_SIZE(%r10)
	je	\slow
	cmp	PROF_FRAME_START(%r10), %r8
	jb	\slow
	PROF_IF_LONG %r8, %rdx, %rax, \slow
	mov	%r8, PROF_TABLE_LAST(%rdx)
	mov	%r10, %r9
	mov	%rcx, %r10
	sub	sosc_prof_threads(%rip), %r10
	shl	$(THREAD_SHIFT - PROF_THREAD_SHIFT), %r10
	add	sosc_threads(%rip), %r10
	RESERVE	32, \full
	IF_NOT_LAST 32, \taken
80:	mov	PROF_FRAME_START(%r9), %rdx
	sub	%rdx, %r8
	mov	%rdx, 8(%rax)
	mov	PROF_FRAME_FUNCTION(%r9), %rdx
	mov	%rdx, 16(%rax)
	mov	PROF_FRAME_KEY(%r9), %rdx
	mov	%rdx, 24(%rax)
	mov	%r8d, 4(%rax)
	shr	$32, %r8
	shl	$REPORTED_TICKS, %r8d
	or	PROF_FRAME_COMMIT(%r9), %r8d
	movq	$0, PROF_FRAME_PLACE(%r9)
	mov	%r9, PROF_THREAD_NEXT(%rcx)
	mov	%r8d, (%rax)
.endm

// The thread's position is beyond the end of its chunk now. If the slow path writes nothing, nobody
// resets the position, and after more calls it could look like a position with room. A signal
// handler that has moved on to another chunk has set a new position.
.macro LOG_FULL slow
	mov	%rax, %rdx
	add	$32, %rax
	cmpxchg	%rdx, THREAD_POS(%r10)
	jmp	\slow
.endm

// A signal handler has recorded more behind the unit in rax. Or it has forked, and this is the
// child: then the unit and the frame are the parent's.
.macro LOG_TAKEN done
	mov	%rax, %rdx
	lea	sosc_ring_is_ours(%rip), %rax
	call	sosc_slow_reserve
	test	%rax, %rax
	jz	\done
	jmp	80b
.endm

FUNCTION sosc_h_prof_log_enter
	.cfi_startproc
	endbr64
	cmpb	$0, sosc_clock_off(%rip)
	jne	9f
	lea	8(%rsp), %r10
	PROF_THREAD %rcx, %ecx, 9f
	LOG_AROUND CYG, 9f, 7f
	LOG_OPEN (%rsp), 6f
	ret
6:	mov	%r9, %rdi
	mov	%r8, %rsi
	mov	%r10, %rdx
	jmp	sosc_prof_log_begin_late
	// at the same address: the compiler has inlined this function into the one on top
7:	jne	8f
	cmp	%rsi, PROF_FRAME_FROM - PROF_FRAME_SIZE(%r8)
	jne	9f
	mov	(%rsp), %rax
	cmp	%rax, PROF_FRAME_SITE - PROF_FRAME_SIZE(%r8)
	jne	80b
	jmp	9f
8:	LOG_ROOT CYG, 9f
9:	mov	(%rsp), %rdx
	lea	8(%rsp), %rcx
	jmp	sosc_prof_log_enter
	.cfi_endproc

FUNCTION sosc_h_prof_log_exit
	.cfi_startproc
	endbr64
	LOG_NOW	9f
	PROF_THREAD %rcx, %ecx, 9f, 0
	LOG_TOP	9f
	cmp	%rdi, PROF_FRAME_FUNCTION(%r10)
	jne	9f
	cmp	%rsi, PROF_FRAME_FROM(%r10)
	jne	9f
	cmpq	$PROF_RETURNED, PROF_FRAME_PLACE(%r10)
	jbe	9f
	LOG_CLOSE 9f, 8f, 7f
6:	ret
7:	LOG_TAKEN 6b
8:	LOG_FULL 9f
9:	lea	8(%rsp), %rdx
	mov	%r8, %rcx
	jmp	sosc_prof_log_exit
	.cfi_endproc

FUNCTION sosc_h_prof_log_bare
	.cfi_startproc
	endbr64
	mov	(%rsp), %rdi
	jmp	sosc_prof_log_bare
	.cfi_endproc

// mcount and __fentry__, like CALL_HOOK. Nodes are only used to know whether the function's return
// can be observed.
.macro LOG_HOOK name, slot, hook, above=0
FUNCTION \name
	HOOK_BEGIN \slot, \hook, \above, 9f
	cmpb	$0, sosc_clock_off(%rip)
	jne	9f
	mov	(%r10), %rsi
	PROF_THREAD %rcx, %ecx, 9f
	movabs	$HINT_FACTOR, %rdx
	mov	%r11, %rax // as FIND_SITE
	shr	$3, %rax
	xor	%rsi, %rax
	imul	%rdx, %rax
	shr	$(64 - HINT_BITS), %rax
	lea	sosc_hints(%rip), %r9
	mov	(%r9, %rax, 8), %r8
	cmp	%rsi, SOSC_DISTANCE + SITE_RETURN(%r8)
	jne	9f
	cmp	%r11, SOSC_DISTANCE + SITE_CELL(%r8)
	jne	9f
	lea	5(%rdi), %rax // as PROF_FIND_NODE with the key SOSC_PROF_NO_CALLER
	imul	%rdx, %rax
	shr	$(64 - PROF_NODE_BITS - PROF_NODE_SHIFT), %rax
	and	$-(1 << PROF_NODE_SHIFT), %rax
	mov	PROF_THREAD_TABLE(%rcx), %r9
	test	%r9, %r9 // as LOG_AROUND
	jz	9f
	add	%r9, %rax
	cmpq	$1, PROF_NODES + PROF_NODE_KEY(%rax)
	jne	9f
	cmp	%rdi, PROF_NODES + PROF_NODE_FUNCTION(%rax)
	jne	9f
	testb	$PROF_NODE_ODD, PROF_NODES + PROF_NODE_FLAGS(%rax)
	jnz	9f
	lea	SITE_RETURNS(%r8), %rdi
	LOG_AROUND \hook, 8f, 7f
	mov	%rdi, (%r10)
	mov	64 + \above(%rsp), %rdi
	LOG_OPEN %rdi, 5f
6:	BACK_ARGUMENTS
	BACK	%rcx
	BACK	%rax
	HOOK_RETURN \above
	.cfi_adjust_cfa_offset 64 + \above
5:	mov	%r9, %rdi
	mov	%r8, %rsi
	mov	%r10, %rdx
	call	sosc_prof_log_begin_late
	jmp	6b
7:	je	8f
	LOG_ROOT \hook, 8f
8:	mov	SOSC_DISTANCE + SITE_CELL - SITE_RETURNS(%rdi), %r11
9:	mov	64 + \above(%rsp), %rdi
	lea	\slot, %rsi
	mov	%r11, %rdx
	mov	$\hook, %ecx
	call	sosc_prof_log_called
	jmp	6b
	.cfi_endproc
.endm

	LOG_HOOK sosc_h_prof_log_mcount, 8(%rbp), 0
	LOG_HOOK sosc_h_prof_log_fentry, 72(%rsp), 1
	LOG_HOOK sosc_h_prof_log_entry, 72 + ENTRY_ABOVE(%rsp), 1, ENTRY_ABOVE

// Does the same as sosc_x_prof.
FUNCTION sosc_x_prof_log
	PROF_EXIT_START
	KEEP	%r8
	KEEP	%r9
	LOG_NOW	9f
	PROF_THREAD %rcx, %ecx, 9f, 0
	LOG_TOP	9f
	mov	SOSC_DISTANCE + SITE_RETURN(%r11), %rax
	cmp	%rax, PROF_FRAME_FROM(%r10)
	jne	9f
	lea	EXIT_SLOT + 16(%rsp), %rax
	not	%rax
	cmp	%rax, PROF_FRAME_PLACE(%r10)
	jne	9f
	testb	$SITE_FLAG_OLD, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jnz	9f
	LOG_CLOSE 9f, 8f, 7f
6:	BACK	%r9
	BACK	%r8
	PROF_EXIT_END
7:	.cfi_def_cfa %rsp, 64
	LOG_TAKEN 6b
8:	LOG_FULL 9f
9:	KEEP	%rsi
	KEEP	%rdi
	mov	%r11, %rdi
	lea	EXIT_SLOT + 32(%rsp), %rsi
	mov	%r8, %rdx
	call	sosc_prof_log_returned
	BACK	%rdi
	BACK	%rsi
	jmp	6b
	.cfi_endproc

	OWN_HOOK sosc_h_prof_log_own_enter, sosc_prof_log_enter, enter
	OWN_HOOK sosc_h_prof_log_own_exit, sosc_prof_log_exit, exit
	OWN_HOOK sosc_h_prof_log_own_bare, sosc_prof_log_bare, bare
