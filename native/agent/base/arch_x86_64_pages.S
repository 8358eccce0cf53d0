// SPDX-License-Identifier: Apache-2.0
//
// The trampolines, and the unwind rules of the places where they are mapped.

#include "base/layout.h"

// ---- pages of trampolines, each mapped many times --------------------------

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
	mov	%r11, SITE_KEPT(%rsp)
	lea	-26(%rip), %r11
	jmp	*SOSC_DISTANCE + (SOSC_SITES_PER_PAGE - 1) * SOSC_SITE_SIZE - site - 32(%rip)
	.balign	SOSC_SITE_SIZE, 0xcc
	.set	site, site + SOSC_SITE_SIZE
	.endr
	.balign	4096, 0xcc

// Counters: entry trampolines that count calls of one thread from two call sites without going to a
// handler, because each further place that code is fetched from costs as much as the counting
// itself. All other calls go to the handler of their cell. So do calls in a child that is forked
// while it is in here, as it has no count array. rax is kept below rsp, in the red zone, where
// signal handlers leave it alone, so that the unwind rule is the rule of a function's first
// instruction. The thread's array is read before the counter's return addresses, because the start
// of a session changes these.
	.globl	sosc_counter_page
sosc_counter_page:
	.rept	4096 / SOSC_COUNTER_SIZE
1:	endbr64
	mov	%rax, -8(%rsp)
	mov	1b + SOSC_DISTANCE + COUNTER_THREAD(%rip), %r11
	mov	%fs:0, %rax
	cmp	%rax, THREAD_KEY(%r11)
	jne	4f
	mov	(%rsp), %rax
	mov	THREAD_COUNTS(%r11), %r11
	test	%r11, %r11
	jz	4f
	cmp	%rax, 1b + SOSC_DISTANCE + COUNTER_RETURN(%rip)
	jne	3f
	add	1b + SOSC_DISTANCE + COUNTER_AT(%rip), %r11
2:	incq	(%r11)
	mov	-8(%rsp), %rax
	mov	1b + SOSC_DISTANCE + COUNTER_CELL(%rip), %r11
	jmp	*CELL_ORIGINAL(%r11)
3:	cmp	%rax, 1b + SOSC_DISTANCE + COUNTER_RETURN + COUNTER_SECOND(%rip)
	jne	4f
	add	1b + SOSC_DISTANCE + COUNTER_AT + COUNTER_SECOND(%rip), %r11
	jmp	2b
4:	mov	-8(%rsp), %rax
	mov	1b + SOSC_DISTANCE + COUNTER_CELL(%rip), %r11
	jmp	*CELL_HANDLER(%r11)
	.balign	SOSC_COUNTER_SIZE, 0xcc
	.endr

// ---- where the pages are mapped, with their unwind rules -------------------

	.section .entries, "ax", @nobits
	.globl	sosc_entries
	.hidden	sosc_entries
sosc_entries:
	.cfi_startproc
	.skip	0x400000
	.cfi_endproc

// The frame of a return trampoline has size zero. At offsets 0 and 4 the return address is still on
// the stack, later it is not:
//	sp' = rsp + ((pc & 31) < 8) * 8
// and the return address is the first word of the data behind the trampoline:
//	*((pc & ~31) + SOSC_DISTANCE)
// This word may lead to another return trampoline (SITE_DEPTH tells): the trampoline of an
// enclosing call that tail-called this one, or of another instrument. Then the rule follows the
// chain to the end, because libgcc cannot tell two signal frames with the same canonical frame
// address apart. In a signal frame the canonical frame address is exact, and unwinders use the
// program counter as it is. The rule therefore gives the return address less one, so that the frame
// above is looked up inside the call instruction.
	.section .sites, "ax", @nobits
	.globl	sosc_sites
	.hidden	sosc_sites
sosc_sites:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_escape 0x0f, 11, 0x77, 0, 0x80, 0, 0x4f, 0x1a, 0x38, 0x2d, 0x33, 0x24, 0x22
	.cfi_escape 0x16, 16, 23, 0x80, 0
	// at `again`: mask with -32 and add the distance to get the data; load its return address
	// and its depth
	.cfi_escape 0x09, 0xe0, 0x1a, 0x0c, DISTANCE_BYTES, 0x22, 0x12, 0x06, 0x16, 0x23, SITE_DEPTH, 0x94, 1
	.cfi_escape 0x28, 0xed, 0xff // bra again
	.cfi_escape 0x31, 0x1c
	.skip	0x400000
	.cfi_endproc

	.section .counters, "ax", @nobits
	.globl	sosc_counters
	.hidden	sosc_counters
sosc_counters:
	.cfi_startproc
	.skip	0x200000
	.cfi_endproc

	.section .inside, "aw", @nobits
	.globl	sosc_inside
	.hidden	sosc_inside
sosc_inside:
	.skip	0x1000
	.globl	sosc_scratch
	.hidden	sosc_scratch
sosc_scratch:
	.skip	0x4000

	.section .cells, "aw", @nobits
	.globl	sosc_cells
	.hidden	sosc_cells
sosc_cells:
	.skip	0x400000

	.section .sitedata, "aw", @nobits
	.globl	sosc_sitedata
	.hidden	sosc_sitedata
sosc_sitedata:
	.skip	0x400000

	.section .counterdata, "aw", @nobits
	.globl	sosc_counterdata
	.hidden	sosc_counterdata
sosc_counterdata:
	.skip	0x200000
