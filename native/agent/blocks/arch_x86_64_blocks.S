// SPDX-License-Identifier: Apache-2.0
//
// Handlers of BLOCKS for x86-64. Each goes on to a C function that runs in place of the program's
// function and calls that itself. Functions of up to three arguments get these where they are
// (System V psABI, 3.2.3), followed by the address of the return address, the caller's frame
// pointer, and the cell.

#include <soscope/family.h>

#include "base/arch_x86_64.inc"

	.text

.macro BLOCK_THREE name
FUNCTION sosc_h_block_\name
	.cfi_startproc
	endbr64
	mov	%rsp, %rcx
	mov	%rbp, %r8
	mov	%r11, %r9
	jmp	sosc_block_\name
	.cfi_endproc
.endm

// Functions of up to six arguments get them in a struct sosc_mapping_call.
.macro BLOCK_SIX name
FUNCTION sosc_h_block_\name
	.cfi_startproc
	endbr64
	KEEP	%r9
	KEEP	%r8
	KEEP	%rcx
	KEEP	%rdx
	KEEP	%rsi
	KEEP	%rdi
	KEEP	%rbp
	KEEP	%r11
	mov	%rsp, %rdi
	lea	-8(%rsp), %rsp
	.cfi_adjust_cfa_offset 8
	call	sosc_block_\name
	lea	72(%rsp), %rsp
	.cfi_adjust_cfa_offset -72
	ret
	.cfi_endproc
.endm

#define HANDLER(name, ...) BLOCK_THREE name;
	SOSC_FAMILY_MAKERS(HANDLER)
	BLOCK_THREE free
	BLOCK_THREE delete
	BLOCK_THREE munmap
	BLOCK_THREE brk
	BLOCK_THREE sbrk
	BLOCK_SIX mmap
	BLOCK_SIX mremap
	BLOCK_SIX pthread_create
	BLOCK_SIX thrd_create
	BLOCK_THREE tryjoin

// dlsym and dlvsym look at their caller, so they are never called from here.
FUNCTION sosc_h_block_dlsym
	.cfi_startproc
	endbr64
	jmp	sosc_h_layer
	.cfi_endproc

// A thread begins here, and goes on in the program's function as if it had begun there.
FUNCTION sosc_h_thread_begins
	.cfi_startproc
	endbr64
	lea	-8(%rsp), %rsp
	.cfi_adjust_cfa_offset 8
	call	sosc_thread_begins
	lea	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	mov	%rdx, %rdi
	jmp	*%rax
	.cfi_endproc

// ---- SAMPLE ------------------------------------------------------------------
//
// Calls that are not chosen, and frees of blocks without a mark, go straight on to the function.
// Everything else is done in C (sample.c), from the beginning and with the original arguments.

// Sets r10 to the struct sosc_block_thread of this thread. An ended thread may have had the same
// thread pointer, but not the same id. Clobbers rax.
.macro FIND_BLOCK_THREAD miss
	mov	%fs:0, %rax
	mov	%rax, %r10
	shr	$12, %r10
	imul	$THREAD_FACTOR, %r10d, %r10d
	shr	$(32 - THREAD_BITS), %r10d
	shl	$BLOCK_THREAD_SHIFT, %r10
	add	sosc_block_threads(%rip), %r10
	cmp	%rax, BLOCK_THREAD_TP(%r10)
	jne	\miss
	mov	sosc_tid_offset(%rip), %rax
	mov	%fs:(%rax), %eax
	cmp	%eax, BLOCK_THREAD_TID(%r10)
	jne	\miss
.endm

// Counts rax bytes down, or jumps to \chosen if the next chosen byte is among them. An add without
// lock is atomic for signal handlers. If a handler counts in between, it makes the next block the
// chosen one.
.macro COUNT_DOWN chosen
	test	%rax, %rax
	js	\chosen
	cmp	%rax, BLOCK_THREAD_LEFT(%r10)
	jle	\chosen
	sub	%rax, BLOCK_THREAD_LEFT(%r10)
.endm

// Jumps to \no unless this call, for rax bytes, is known to be inside another call that has counted
// the bytes. Does the same as sosc_block_is_inside for calls that were seen before. Clobbers rax,
// rcx, r8, r9.
.macro IF_NOT_INSIDE no
	cmp	BLOCK_THREAD_ASKED(%r10), %rax
	jb	\no
	mov	BLOCK_THREAD_SP(%r10), %rcx
	cmp	%rcx, BLOCK_THREAD_LOW(%r10)
	ja	\no
	cmp	%rcx, BLOCK_THREAD_HIGH(%r10)
	jbe	\no
	mov	(%rcx), %rax
	cmp	%rax, BLOCK_THREAD_RET(%r10)
	jne	\no
	sub	%rsp, %rcx
	cmp	$NESTED_FAR, %rcx
	jae	\no
	mov	(%rsp), %rax
	mov	%ecx, %r8d
	shr	$3, %r8d
	xor	%eax, %r8d
	and	$((1 << NESTED_BITS) - 1), %r8d
	shl	$NESTED_SHIFT, %rcx
	xor	%rax, %rcx
	lea	sosc_block_nested(%rip), %r9
	cmp	%rcx, (%r9,%r8,8)
	jne	\no
.endm

// Jumps to \yes if the block at rdi may have a mark. Clobbers rax, r10.
.macro IF_MAY_BE_MARKED yes
	mov	%edi, %eax
	shr	$MARKED_SHIFT, %eax
	movzwl	%ax, %eax
	lea	sosc_block_marked(%rip), %r10
	cmpb	$0, (%r10,%rax)
	jne	\yes
.endm

// Jumps to \yes if the block at rdi has a mark. Jumps to \alike if there is no leaf: then all
// blocks there count as marked if the flags say equal, else none is marked. Clobbers rax, r10.
.macro IF_MARKED yes, alike
	mov	%rdi, %rax
	shr	$MARK_BITS, %rax
	and	$(MARK_LEAVES - 1), %eax
	mov	sosc_block_marks(%rip), %r10
	mov	(%r10,%rax,8), %r10
	cmp	$MARK_ALL, %r10
	jbe	\alike
	mov	%edi, %eax
	and	$((1 << MARK_BITS) - 1), %eax
	shr	$8, %eax
	mov	(%r10,%rax,4), %r10d
	mov	%edi, %eax
	shr	$3, %eax
	bt	%eax, %r10d
	jc	\yes
.endm

.macro SAMPLE_BEGIN name
FUNCTION sosc_h_sample_\name
	.cfi_startproc
	endbr64
.endm

.macro SAMPLE_IN_C name
	mov	%rsp, %rcx
	mov	%rbp, %r8
	mov	%r11, %r9
	jmp	sosc_sample_\name
	.cfi_endproc
.endm

// rax = requested bytes + 1. \marked: the label to which realloc goes from IF_MAY_BE_MARKED.
.macro SAMPLE_OTHERS name, marked
	cmpq	$0, BLOCK_THREAD_SP(%r10)
	jne	2f
	COUNT_DOWN 1f
3:	jmp	*CELL_ORIGINAL(%r11)
2:	IF_NOT_INSIDE 1f
	jmp	3b
.ifnb \marked
\marked:	IF_MARKED 1f, 5f
	jmp	4b
5:	jne	4b
.endif
1:	SAMPLE_IN_C \name
.endm

	SAMPLE_BEGIN malloc
	FIND_BLOCK_THREAD 1f
	lea	1(%rdi), %rax
	SAMPLE_OTHERS malloc

	SAMPLE_BEGIN calloc
	FIND_BLOCK_THREAD 1f
	mov	%rdi, %rax
	mul	%rsi
	jo	1f
	inc	%rax
	SAMPLE_OTHERS calloc

	SAMPLE_BEGIN realloc
	IF_MAY_BE_MARKED 6f
4:	FIND_BLOCK_THREAD 1f
	lea	1(%rsi), %rax
	SAMPLE_OTHERS realloc, 6

	SAMPLE_BEGIN free
	IF_MAY_BE_MARKED 4f
3:	jmp	*CELL_ORIGINAL(%r11)
4:	IF_MARKED 1f, 2f
	jmp	3b
2:	jne	3b
1:	SAMPLE_IN_C free

// operator new calls malloc, and new[] calls both. Until these return, they leave a note that they
// have counted the block. An exception leaves the note behind, but then the frame of this code is
// gone, which shows it.
.macro SAMPLE_NEW name
	SAMPLE_BEGIN \name
	FIND_BLOCK_THREAD 1f
	cmpq	$0, BLOCK_THREAD_SP(%r10)
	jne	2f
	cmp	%rsp, BLOCK_THREAD_LOW(%r10)
	ja	1f
	cmp	%rsp, BLOCK_THREAD_HIGH(%r10)
	jbe	1f
	lea	1(%rdi), %rax
	COUNT_DOWN 1f
	mov	%rax, BLOCK_THREAD_ASKED(%r10)
	mov	(%rsp), %rax
	mov	%rax, BLOCK_THREAD_RET(%r10)
	mov	%rsp, BLOCK_THREAD_SP(%r10)
	KEEP	%r10
	call	*CELL_ORIGINAL(%r11)
	BACK	%r10
	movq	$0, BLOCK_THREAD_SP(%r10)
	ret
2:	lea	1(%rdi), %rax
	IF_NOT_INSIDE 1f
	jmp	*CELL_ORIGINAL(%r11)
1:	SAMPLE_IN_C \name
.endm

	SAMPLE_NEW new
	SAMPLE_NEW new_array

.macro SAMPLE_RARE name
	SAMPLE_BEGIN \name
	SAMPLE_IN_C \name
.endm

#define SAMPLER(name, ...) SAMPLE_RARE name;
	SOSC_FAMILY_RARE(SAMPLER)
