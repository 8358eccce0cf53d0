// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fno-builtin
// Calls labs() from functions with each kind of instruction behind the call, again and again for a
// line, and prints what came of all that: with a breakpoint there it is the same.
#include <stdio.h>
#include <stdlib.h>

long table[4] = {3, 50, 700, 9000};
long add_seven(void);
long (*pointer)(void) = add_seven;

// %rax is what labs() returns, %rbx 5; %r12 and 8(%r13,%r14,8) lead to add_seven, which adds 7
#define BEHIND(name, code)                                                                  \
	long name(long value);                                                              \
	__asm__(".text\n.globl " #name "\n" #name ":\n push %rbx\n push %r12\n push %r13\n" \
		" push %r14\n sub $8, %rsp\n mov $5, %ebx\n lea add_seven(%rip), %r12\n"    \
		" lea pointer(%rip), %r13\n mov $-1, %r14\n call labs@PLT\n " code          \
		"\n add $8, %rsp\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n ret\n")

__asm__(".text\n.globl add_seven\nadd_seven: add $7, %rax\n ret\n"
	".globl by_return\nby_return: sub $8, %rsp\n call 1f\n add $8, %rsp\n ret\n"
	"1: sub $8, %rsp\n call labs@PLT\n add $8, %rsp\n ret\n"
	".globl right_away\nright_away: lea 2f(%rip), %rax\n push %rax\n jmp labs@PLT\n"
	"2: ret\n");
long by_return(long value);
long right_away(long value);
BEHIND(by_jump, "jmp 1f\n ud2\n1: add $1, %rax");
BEHIND(by_far_jump, "jmp 1f\n .skip 300, 0xcc\n1: add $1, %rax");
BEHIND(by_zero, "je 1f\n add $16, %rax\n1: add $2, %rax");
BEHIND(by_sign, "js 1f\n add $32, %rax\n1: add $2, %rax");
BEHIND(by_carry, "jb 1f\n add $64, %rax\n1: add $2, %rax");
BEHIND(by_order, "jg 1f\n add $128, %rax\n .skip 300, 0x90\n1: add $2, %rax");
BEHIND(by_parity, "jnp 1f\n add $256, %rax\n1: add $2, %rax");
BEHIND(by_call, "call add_seven");
BEHIND(by_register, "call *%r12");
BEHIND(by_memory, "call *8(%r13,%r14,8)");
BEHIND(by_pointer, "call *pointer(%rip)");
BEHIND(by_word, "add table+8(%rip), %rax");
BEHIND(by_wide, "movq table+16(%rip), %xmm0\n movq %xmm0, %rcx\n add %rcx, %rax");
BEHIND(by_address, "lea table(%rip), %rcx\n add 24(%rcx), %rax");
BEHIND(by_number, "movabs $0x1122334455, %rcx\n add %rcx, %rax");
BEHIND(by_nothing, "nop\n add %rbx, %rax");
BEHIND(by_stack, "push %rax\n pop %rcx\n lea (%rcx,%rcx), %rax");
BEHIND(by_another, "mov %rax, %rdi\n call labs@PLT\n call labs@PLT");
BEHIND(by_compare, "cmpq $40, table+8(%rip)\n setg %cl\n movzbl %cl, %ecx\n add %rcx, %rax");
BEHIND(by_bits, "pxor %xmm1, %xmm1\n add %rbx, %rax");

static long (*const all[])(long) = {
	by_return, right_away, by_jump,	    by_far_jump, by_zero,    by_sign, by_carry, by_order,
	by_parity, by_call,    by_register, by_memory,	 by_pointer, by_word, by_wide,	by_address,
	by_number, by_nothing, by_stack,    by_another,	 by_compare, by_bits,
};

int main(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && line[0] == 'g') {
		for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
			printf("%ld %ld %ld ", all[i](-21), all[i](0), all[i](4));
		puts("");
		fflush(stdout);
	}
	return 7;
}
