// SPDX-License-Identifier: Apache-2.0
//
// Forks a child that its parent does not notice.

#include "base/arch_x86_64.inc"

#define CLONE 56 // numbers of system calls
#define EXIT_GROUP 231
#define SHARES_MEMORY 0x4100 // CLONE_VM | CLONE_VFORK, and no signal when it ends

	.text

// sosc_fork_apart(rdi = fork, rsi = where its result is stored): calls fork in a process in
// between. That process shares this thread's memory while this thread waits, and ends at once. The
// function returns twice, with rax = 0 in the child, and in its parent rax = the id of the process
// in between, for which the parent has to wait. rax = -errno if there is no such process. The
// process in between never returns, so it leaves the frame unchanged. The child has a copy of the
// memory and finds the frame unchanged, too.
FUNCTION sosc_fork_apart
	.cfi_startproc
	endbr64
	KEEP	%rbx
	KEEP	%r12
	KEEP	%r13 // also keeps the stack aligned
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
