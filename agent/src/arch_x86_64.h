// SPDX-License-Identifier: Apache-2.0
//
// Macros of the x86-64 assembly: registers kept, the thread, the call site, room.

#ifndef SOSC_ARCH_X86_64_H
#define SOSC_ARCH_X86_64_H

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

.macro SLOW function
	lea	\function(%rip), %rax
	call	sosc_slow_call
.endm

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

#endif
