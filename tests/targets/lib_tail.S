// SPDX-License-Identifier: Apache-2.0
// gpong(left, sum): return left ? gping(left - 1, sum + left) : sum, by a jump
// through this library's own slot.
	.text
	.globl	gpong
	.type	gpong, @function
gpong:
	.cfi_startproc
	endbr64
	mov	%rsi, %rax
	test	%rdi, %rdi
	je	1f
	add	%rdi, %rsi
	dec	%rdi
	jmp	gping@PLT
1:	ret
	.cfi_endproc
	.size	gpong, . - gpong
	.section .note.GNU-stack, "", @progbits
