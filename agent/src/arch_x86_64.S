// SPDX-License-Identifier: Apache-2.0
//
// Trampolines and handlers for x86-64 (System V psABI, section 3.2).
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

#include "layout.h"

#define UNIT_ENTRY (1 << 28) // wire.h, enum sosc_unit_type
#define UNIT_ENTRY_ONLY (2 << 28)
#define UNIT_EXIT (3 << 28)
#define UNIT_WORDS ((4 << 28) | (1 << 24) | (1 << 16) | 40)
#define UNIT_WORDS_MORE ((4 << 28) | (1 << 16) | 16)

.macro KEEP reg
	push	\reg
	.cfi_adjust_cfa_offset 8
.endm

.macro BACK reg
	pop	\reg
	.cfi_adjust_cfa_offset -8
.endm

.macro FUNCTION name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.balign	16
\name:
.endm

// Handlers keep these four; offsets from rsp afterwards.
#define SAVED_RCX 0
#define SAVED_R10 8
#define SAVED_RDX 16
#define SAVED_RAX 24
#define RETURN_SLOT 32

.macro SAVE_FOUR
	KEEP	%rax
	KEEP	%rdx
	KEEP	%r10
	KEEP	%rcx
.endm

.macro RESTORE_FOUR
	BACK	%rcx
	BACK	%r10
	BACK	%rdx
	BACK	%rax
.endm

// r10 = this thread's struct sosc_thread. Clobbers rax.
.macro FIND_THREAD miss, check_tid
	mov	%fs:0, %rax
	mov	%rax, %r10
	shr	$12, %r10
	and	$(THREAD_COUNT - 1), %r10d
	shl	$THREAD_SHIFT, %r10
	add	sosc_threads(%rip), %r10
	cmp	%rax, THREAD_KEY(%r10)
	jne	\miss
.if \check_tid
	mov	sosc_tid_offset(%rip), %rax
	mov	%fs:(%rax), %eax
	cmp	%eax, THREAD_TID(%r10)
	jne	\miss
.endif
.endm

// rcx = the return trampoline for (return address, cell). Clobbers rax, rdx.
.macro FIND_SITE miss
	mov	RETURN_SLOT(%rsp), %rax
	mov	%r11, %rcx
	shr	$3, %rcx
	xor	%rax, %rcx
	movabs	$HINT_FACTOR, %rdx
	imul	%rdx, %rcx
	shr	$(64 - HINT_BITS), %rcx
	lea	sosc_hints(%rip), %rdx
	mov	(%rdx,%rcx,8), %rcx
	cmp	SOSC_DISTANCE + SITE_RETURN(%rcx), %rax
	jne	\miss
	cmp	SOSC_DISTANCE + SITE_CELL(%rcx), %r11
	jne	\miss
.endm

// rax = room for \size bytes of units. Clobbers rdx. An xadd without lock is
// atomic against signals of its own thread, and nobody else writes here.
.macro RESERVE size, full
	mov	$\size, %eax
	xadd	%rax, THREAD_POS(%r10)
	mov	%eax, %edx
	and	$CHUNK_MASK, %edx
	cmp	$CHUNK_LIMIT, %edx
	jae	\full
.endm

	.text

// Calls a C function in rax with every register but rax kept; r11 is its first
// argument, r10 the second.
	.balign	16
slow_call:
	.cfi_startproc
	KEEP	%rcx
	KEEP	%rdx
	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r10
	KEEP	%r11
	cld
	mov	%r11, %rdi
	mov	%r10, %rsi
	call	*%rax
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

.macro SLOW function
	lea	\function(%rip), %rax
	call	slow_call
.endm

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
	call	slow_reserve
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
	call	slow_site
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
	call	slow_reserve
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

// C(cell r11, thread r10, bytes rdx): room in the ring or 0, in rax.
	.balign	16
slow_reserve:
	.cfi_startproc
	KEEP	%rcx
	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r10
	KEEP	%r11
	cld
	mov	%r11, %rdi
	mov	%r10, %rsi
	call	*%rax
	BACK	%r11
	BACK	%r10
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	BACK	%rcx
	ret
	.cfi_endproc

// C(cell r11, thread r10, return address rdx): a return trampoline or 0, in rax;
// C(cell r11, thread r10, stack address rdx): a parking place or 0, in rax.
	.set	slow_site, slow_reserve
	.set	slow_park, slow_reserve

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
	cld
	mov	%rsp, %rdi
	call	sosc_capture_entry
	mov	%rax, (%rsp)
	BACK	%r11
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	RESTORE_FOUR
	jmp	*%r11
	.cfi_endproc

// ---- exits -----------------------------------------------------------------

// r11 = the return trampoline, rsp = just above where the return address was.
// Until it is back in its place the rule reads it from the trampoline's data.
.macro EXIT_START
	.cfi_startproc
	.cfi_def_cfa %rsp, 0
	.cfi_escape 0x16, 16, 9, 0x7b, 0, 0x0c, 0x00, 0x00, 0x50, 0x00, 0x22, 0x06
	endbr64
	pushq	SOSC_DISTANCE + SITE_RETURN(%r11)
	.cfi_def_cfa %rsp, 8
	.cfi_offset 16, -8
	SAVE_FOUR
.endm

FUNCTION sosc_x_plain
	.cfi_startproc
	.cfi_def_cfa %rsp, 0
	.cfi_escape 0x16, 16, 9, 0x7b, 0, 0x0c, 0x00, 0x00, 0x50, 0x00, 0x22, 0x06
	endbr64
	pushq	SOSC_DISTANCE + SITE_RETURN(%r11)
	.cfi_def_cfa %rsp, 8
	.cfi_offset 16, -8
	ret
	.cfi_endproc

FUNCTION sosc_x_call
	EXIT_START
	testb	$SITE_FLAG_PROGRAM, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jnz	9f
	xor	%ecx, %ecx
	cmpb	$0, sosc_clock_off(%rip)
	jne	1f
	rdtsc
	mov	%rdx, %rcx
	shl	$32, %rcx
	or	%rax, %rcx
1:	FIND_THREAD 7f, 1
2:	RESERVE	32, 8f
3:	mov	%rcx, 8(%rax)
	mov	SAVED_RAX(%rsp), %rdx
	mov	%rdx, 16(%rax)
	mov	sosc_errno_offset(%rip), %rdx
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
7:	SLOW	sosc_thread_slow_exit
	mov	%rax, %r10
	test	%rax, %rax
	jnz	2b
	jmp	4b
8:	mov	$32, %edx
	lea	sosc_ring_slow_exit(%rip), %rax
	call	slow_reserve
	test	%rax, %rax
	jnz	3b
	jmp	4b
9:	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r11
	cld
	mov	%rsp, %rdi
	call	sosc_capture_exit
	BACK	%r11
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	jmp	4b
	.cfi_endproc

// ---- -c: times, paired by stack address and cell ---------------------------

FUNCTION sosc_h_stats
	.cfi_startproc
	endbr64
	SAVE_FOUR
	FIND_THREAD 7f, 0
1:	FIND_SITE 6f
2:	mov	THREAD_COUNTS(%r10), %rax
	test	%rax, %rax
	jz	9f
	incq	STATS_CALLS(%rax,%r11,4)
	lea	RETURN_SLOT(%rsp), %rax
	mov	%eax, %edx
	and	$((PARKED_COUNT - 1) << 4), %edx
	add	%edx, %edx
	add	THREAD_PARKED(%r10), %rdx
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
	call	slow_park
	mov	%rax, %rdx
	lea	RETURN_SLOT(%rsp), %rax
	test	%rdx, %rdx
	jnz	3b
	mov	%rcx, %r11
	jmp	10f
6:	mov	%rax, %rdx
	lea	sosc_site_slow(%rip), %rax
	call	slow_site
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
	mov	%eax, %edx
	and	$((PARKED_COUNT - 1) << 4), %edx
	add	%edx, %edx
	add	THREAD_PARKED(%r10), %rdx
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
	mov	%eax, %edx
	and	$((PARKED_COUNT - 1) << 4), %edx
	add	%edx, %edx
	add	THREAD_PARKED(%r10), %rdx
	cmp	%rax, PARKED_SP(%rdx)
	jne	7f
	mov	SOSC_DISTANCE + SITE_CELL(%r11), %rax
	cmp	%rax, PARKED_CELL(%rdx)
	jne	7f
	cmpb	$0, SOSC_DISTANCE + SITE_FLAGS(%r11)
	jne	7f
	cmpq	$0, THREAD_COUNTS(%r10)
	je	7f
	sub	PARKED_A(%rdx), %rcx
	add	PARKED_B(%rdx), %rcx
	movq	$0, PARKED_SP(%rdx)
	sub	THREAD_OVERHEAD(%r10), %rcx
	sub	sosc_cost_inner(%rip), %rcx
	js	6f
1:	mov	THREAD_COUNTS(%r10), %rdx
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
	dec	%ecx
	jz	21f
	dec	%ecx
	jz	22f
	dec	%ecx
	jz	23f
	dec	%ecx
	jz	24f
	dec	%ecx
	jz	25f
	test	%eax, %eax
	jz	29f
	jmp	10b
21:	test	%eax, %eax
	js	29f
	jmp	10b
22:	test	%rax, %rax
	js	29f
	jmp	10b
23:	test	%rax, %rax
	jz	29f
	jmp	10b
24:	cmp	$-1, %rax
	je	29f
	jmp	10b
25:	test	%eax, %eax
	jz	10b
29:	incq	STATS_ERRORS(%rdx)
	jmp	10b
	// a shared array, another place, returns twice, no clock: C does it all,
	// with the clock as it was read
7:	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r11
	cld
	mov	%rsp, %rdi
	mov	%rcx, %rsi
	call	sosc_stats_exit
	BACK	%r11
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	jmp	9f
8:	SLOW	sosc_site_rebound
9:	RESTORE_FOUR
	ret
	.cfi_endproc

// ---- the loader ------------------------------------------------------------

// Jumped to from the loader's r_brk function. Its callers may know that the
// empty function there destroys no register at all (gcc's -fipa-ra).
	.globl	sosc_loader_event // soscope looks it up
	.type	sosc_loader_event, @function
	.balign	16
sosc_loader_event:
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%r10
	SLOW	sosc_loader_changed
	BACK	%r10
	BACK	%rax
	ret
	.cfi_endproc

	.globl	sosc_loader_jump // the same for the agent itself
	.hidden	sosc_loader_jump
	.set	sosc_loader_jump, sosc_loader_event

// An image's DT_INIT is this cell: hook the image, then run its own DT_INIT.
// rdi, rsi, rdx are the initialiser's arguments.
FUNCTION sosc_h_init
	.cfi_startproc
	endbr64
	KEEP	%rax
	KEEP	%r10
	SLOW	sosc_image_init
	mov	%rax, %r11
	BACK	%r10
	BACK	%rax
	test	%r11, %r11
	jz	1f
	jmp	*%r11
1:	ret
	.cfi_endproc

// Where a linker passes the relocation's index in r11 to PLT0, r11 is lost in
// the trampoline: do what PLT0 would have done (push index, push GOT[1], jump
// to GOT[2]). r11 = the cell; struct sosc_lazy { u64 index, got }.
FUNCTION sosc_h_resolve
	.cfi_startproc
	endbr64
	push	%rax
	.cfi_adjust_cfa_offset 8
	lea	sosc_cells(%rip), %rax
	sub	%rax, %r11
	lea	sosc_lazy(%rip), %rax
	add	%rax, %r11
	pop	%rax
	.cfi_adjust_cfa_offset -8
	pushq	(%r11)
	.cfi_adjust_cfa_offset 8
	mov	8(%r11), %r11
	pushq	8(%r11)
	.cfi_adjust_cfa_offset 8
	jmp	*16(%r11)
	.cfi_endproc

// In front of prctl, seccomp and syscall: C looks at the arguments first.
FUNCTION sosc_h_guard
	.cfi_startproc
	endbr64
	SAVE_FOUR
	KEEP	%rsi
	KEEP	%rdi
	KEEP	%r8
	KEEP	%r9
	KEEP	%r11
	cld
	mov	%rsp, %rdi
	call	sosc_guard
	BACK	%r11
	BACK	%r9
	BACK	%r8
	BACK	%rdi
	BACK	%rsi
	RESTORE_FOUR
	jmp	*CELL_ORIGINAL(%r11)
	.cfi_endproc

// ---- calibration -----------------------------------------------------------

FUNCTION sosc_empty
	.cfi_startproc
	endbr64
	ret
	.cfi_endproc

// sosc_call_often(rdi = function, rsi = times): ticks it took, in rax.
FUNCTION sosc_call_often
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
1:	call	*%rbx
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

// Where the launcher's remote call returns to.
	.globl	sosc_trap // soscope looks it up
	.type	sosc_trap, @function
	.balign	16
sosc_trap:
	.cfi_startproc
	int3
	.cfi_endproc

// ---- pages of trampolines, mapped again and again --------------------------

	.section .pages, "ax", @progbits
	.balign	4096
	.globl	sosc_entry_page
sosc_entry_page:
	.rept	4096 / SOSC_ENTRY_SIZE
	endbr64
	lea	SOSC_DISTANCE - 11(%rip), %r11
	jmp	*CELL_HANDLER(%r11)
	.balign	SOSC_ENTRY_SIZE, 0xcc
	.endr

	.balign	4096
	.globl	sosc_site_page
sosc_site_page:
	.set	site, 0
	.rept	SOSC_SITES_PER_PAGE - 1
	endbr64
	add	$8, %rsp
	call	*SOSC_DISTANCE + SITE_ORIGINAL - 14(%rip)
	lea	-21(%rip), %r11
	jmp	*SOSC_DISTANCE + (SOSC_SITES_PER_PAGE - 1) * SOSC_SITE_SIZE - site - 27(%rip)
	.balign	SOSC_SITE_SIZE, 0xcc
	.set	site, site + SOSC_SITE_SIZE
	.endr
	.balign	4096, 0xcc

// ---- where they are mapped, with their unwind rules ------------------------

	.section .entries, "ax", @nobits
	.globl	sosc_entries
	.hidden	sosc_entries
sosc_entries:
	.cfi_startproc
	.skip	0x100000
	.cfi_endproc

// The frame of a return trampoline has size zero. At offsets 0 and 4 the return
// address is still on the stack, later it is not:
//	sp' = rsp + ((pc & 31) < 8) * 8
// and the return address is the first word of the data behind the trampoline:
//	*((pc & ~31) + SOSC_DISTANCE)
// As a signal frame the canonical frame address is exact and unwinders use the
// program counter as it is; the return address is given less one, so that the
// frame above is looked up inside the call instruction.
	.section .sites, "ax", @nobits
	.globl	sosc_sites
	.hidden	sosc_sites
sosc_sites:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_escape 0x0f, 11, 0x77, 0, 0x80, 0, 0x4f, 0x1a, 0x38, 0x2d, 0x33, 0x24, 0x22
	.cfi_escape 0x16, 16, 14, 0x80, 0, 0x09, 0xe0, 0x1a, 0x0c, 0x00, 0x00, 0x50, 0x00, 0x22, 0x06, 0x31, 0x1c
	.skip	0x400000
	.cfi_endproc

	.section .cells, "aw", @nobits
	.globl	sosc_cells
	.hidden	sosc_cells
sosc_cells:
	.skip	0x100000

	.section .sitedata, "aw", @nobits
	.globl	sosc_sitedata
	.hidden	sosc_sitedata
sosc_sitedata:
	.skip	0x400000
