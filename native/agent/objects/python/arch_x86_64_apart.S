// SPDX-License-Identifier: Apache-2.0
//
// A forked child that its parent hears nothing of.

#include "base/arch_x86_64.inc"

#define CLONE 56 // system calls
#define EXIT_GROUP 231
#define SHARES_MEMORY 0x4100 // CLONE_VM | CLONE_VFORK, and no signal at its end

	.text

// sosc_fork_apart(rdi = fork, rsi = where its result is put): calls it in a process in between,
// which has this thread's memory while this thread waits, and ends at once. Returns twice, in rax:
// 0 in the child, the number of the process in between in its parent, which is to wait for it.
// -errno: there is no such process. The one in between never returns, so it leaves the frame as
// it is; and a child of its own copy of the memory finds it so, too.
FUNCTION sosc_fork_apart
	.cfi_startproc
	endbr64
	KEEP	%rbx
	KEEP	%r12
	KEEP	%r13 // keeps the stack aligned, too
	mov	%rdi, %rbx
	mov	%rsi, %r12
	mov	$CLONE, %eax
	mov	$SHARES_MEMORY, %edi
	xor	%esi, %esi
	xor	%edx, %edx
	xor	%r10d, %r10d
	xor	%r8d, %r8d
	syscall
	test	%rax, %rax
	jnz	1f
	call	*%rbx
	test	%eax, %eax
	jz	1f
	mov	%eax, (%r12)
	xor	%edi, %edi
	mov	$EXIT_GROUP, %eax
	syscall
	hlt
1:	BACK	%r13
	BACK	%r12
	BACK	%rbx
	ret
	.cfi_endproc
