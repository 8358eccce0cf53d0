// SPDX-License-Identifier: Apache-2.0
//
// Handlers of entries in a session whose processes have gates: where a process's gate is closed,
// its call goes on to the function at once, and no exit is seen either.

#include "base/arch_x86_64.inc"

	.text

.macro GATED name
FUNCTION \name\()_gated
	.cfi_startproc
	endbr64
	KEEP	%rax
	mov	sosc_gate(%rip), %rax
	mov	(%rax), %rax
	test	%rax, %rax
	jz	3f
1:	cmpl	$0, (%rax)
	BACK	%rax
	je	2f
	jmp	\name
2:	jmp	*CELL_ORIGINAL(%r11)
	// a forked child that has none yet
3:	.cfi_adjust_cfa_offset 8
	KEEP	%r10
	SLOW	sosc_gate_slow
	BACK	%r10
	jmp	1b
	.cfi_endproc
.endm

	GATED sosc_h_count
	GATED sosc_h_count_callers
	GATED sosc_h_stats
	GATED sosc_h_stats_entry
	GATED sosc_h_entry
	GATED sosc_h_entry_six
	GATED sosc_h_call
	GATED sosc_h_call_six
	GATED sosc_h_program
	GATED sosc_h_stack
