// SPDX-License-Identifier: Apache-2.0
//
// Entry points for the loader and the launcher, and the code that runs in place of other functions.

#include "base/arch_x86_64.inc"

	.text

// ---- the loader ------------------------------------------------------------

// The loader's r_brk function jumps here. Its callers may rely on the empty function there not
// changing any register at all (gcc's -fipa-ra).
	.globl	sosc_loader_event // soscope looks up this symbol
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

	.globl	sosc_loader_jump // the same code, by a name for the agent itself
	.hidden	sosc_loader_jump
	.set	sosc_loader_jump, sosc_loader_event

// This is the handler of a cell that replaces an image's DT_INIT. It hooks the image, then runs the
// image's own DT_INIT. rdi, rsi, rdx are the initialiser's arguments.
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

// Some linkers pass the relocation's index to PLT0 in r11, which the trampoline overwrites. So this
// does what PLT0 would have done (push the index, push GOT[1], jump to GOT[2]). r11 = the cell;
// struct sosc_lazy { u64 index, got }.
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

// Handler for dl_iterate_phdr of another namespace: rdi and rsi are its arguments.
FUNCTION sosc_h_iterate
	.cfi_startproc
	endbr64
	KEEP	%rdi
	KEEP	%rsi
	KEEP	%r11
	mov	CELL_ORIGINAL(%r11), %rdx
	call	sosc_iterate_first
	BACK	%r11
	BACK	%rsi
	BACK	%rdi
	test	%eax, %eax
	jnz	1f
	jmp	*CELL_ORIGINAL(%r11)
1:	ret
	.cfi_endproc

// ---- backtraces ---------------------------------------------------------------

// Runs in place of a function of two arguments that walks the stack: calls \function(rdi, rsi,
// cell). If that returns -1, goes on to the original function as if it were not hooked.
.macro IN_PLACE name, function
FUNCTION \name
	.cfi_startproc
	endbr64
	KEEP	%rdi
	KEEP	%rsi
	KEEP	%r11
	mov	%r11, %rdx
	call	\function
	BACK	%r11
	BACK	%rsi
	BACK	%rdi
	cmp	$-1, %eax
	je	1f
	ret
1:	jmp	*CELL_ORIGINAL(%r11)
	.cfi_endproc
.endm
	IN_PLACE sosc_h_backtrace, sosc_backtrace
	IN_PLACE sosc_h_walk, sosc_walk

FUNCTION sosc_h_walk_ip
	.cfi_startproc
	endbr64
	mov	%r11, %rdx
	jmp	sosc_walk_ip
	.cfi_endproc

FUNCTION sosc_h_walk_ip_info
	.cfi_startproc
	endbr64
	mov	%r11, %rdx
	jmp	sosc_walk_ip_info
	.cfi_endproc

// soscope's remote calls return to this address, usually with the thread's own registers in a signal
// frame above: rt_sigreturn gives them back even if soscope was killed meanwhile. A living soscope
// takes the result from %rbx, and stops the thread before that: if %r12d is positive, at this signal,
// which the program ignores, if it is 0, at rt_sigreturn, and if it is negative, at a breakpoint.
	.globl	sosc_trap // soscope looks up this symbol
	.type	sosc_trap, @function
	.balign	16
sosc_trap:
	.cfi_startproc
	.cfi_undefined	%rip
	mov	%rax, %rbx
	test	%r12d, %r12d
	jz	1f
	js	2f
	mov	$186, %eax // gettid
	syscall
	mov	%eax, %edi
	mov	%r12d, %esi
	mov	$200, %eax // tkill
	syscall
1:	mov	$15, %eax // rt_sigreturn
	syscall
2:	int3
	.cfi_endproc
