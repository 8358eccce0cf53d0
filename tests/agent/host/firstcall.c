// SPDX-License-Identifier: Apache-2.0
// firstcall: whether a function passes its first argument to the first one that it calls, in code
// as gcc and clang make it of CPython's _Py_NewReference.
#include "host.h"

#include "image/image.h"
#include "objects/python/python.h"

#include <link.h>
#include <string.h>

// Where a function ends is a symbol, too: a call behind it is another function's.
#define FUNCTION(name, body) \
	__asm__(".globl " #name ", " #name "_end\n" #name ":\n" body "\n" #name "_end:\n")

__asm__(".data\nword: .quad 0\n.text\n");
FUNCTION(told, "mov %rdi, %rax; ret");

// not inlined, as most are
FUNCTION(plain, "endbr64; mov word(%rip), %rax; push %rbx; mov %rdi, %rbx;"
		"mov 4(%rax), %eax; test %eax, %eax; jne 1f; movq $1, (%rbx); pop %rbx; ret;"
		"1: call told; movq $1, (%rbx); pop %rbx; ret");
FUNCTION(spilled, "cmpl $0, word(%rip); jne 1f; movq $1, (%rdi); ret;"
		  "1: sub $24, %rsp; mov %rdi, 8(%rsp); call told; mov 8(%rsp), %rdi;"
		  "movq $1, (%rdi); add $24, %rsp; ret");

// inlined: what is called takes a lock
FUNCTION(inlined, "push %rbx; mov %rdi, %rbx; mov word(%rip), %eax; test %eax, %eax; jne 1f;"
		  "movq $1, (%rbx); pop %rbx; ret;"
		  "1: mov 8(%rdi), %rax; lea -16(%rdi), %rdx; mov $1, %esi;"
		  "testb $64, 169(%rax); cmove %rdi, %rdx; mov word(%rip), %rdi;"
		  "call told; pop %rbx; ret");

// another argument
FUNCTION(zero, "push %rbx; mov %rdi, %rbx; xor %edi, %edi; call told; pop %rbx; ret");
FUNCTION(moved, "push %rbx; mov %rsi, %rdi; call told; pop %rbx; ret");
FUNCTION(popped, "push %rsi; pop %rdi; call told; ret");
FUNCTION(loaded, "mov word(%rip), %rdi; call told; ret");

// an operand that looks like a call
FUNCTION(operand, "cmpl $0xe8, word(%rip); jne 1f; ret; 1: lea -16(%rdi), %rdi; call told; ret");

// the call stands elsewhere, among the code that seldom runs
FUNCTION(cold, "mov word(%rip), %eax; test %eax, %eax; jne 1f; movq $1, (%rdi); ret");
FUNCTION(other, "1: call told; ret");

extern char told[];

static struct sosc_loaded image;

static int fill(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	image.bias = info->dlpi_addr;
	image.phdr = info->dlpi_phdr;
	image.phnum = info->dlpi_phnum;
	image.start = image.bias;
	for (uint32_t i = 0; i < image.phnum; i++)
		if (image.phdr[i].p_type == PT_LOAD)
			image.end = image.bias + image.phdr[i].p_vaddr + image.phdr[i].p_memsz;
	return 1; // the program is the first
}

#define EXPECT(name, what)                                                                      \
	do {                                                                                    \
		extern char name[], name##_end[];                                               \
		uint64_t found =                                                                \
			sosc_first_call((uint64_t)name, (uint64_t)(name##_end - name), &image); \
		if (found != (uint64_t)(what)) {                                                \
			printf(#name ": %#lx\n", (unsigned long)found);                         \
			failed = 1;                                                             \
		}                                                                               \
	} while (0)

int main(void)
{
	int failed = 0;

	dl_iterate_phdr(fill, NULL);
	EXPECT(plain, told);
	EXPECT(spilled, told);
	EXPECT(inlined, 0);
	EXPECT(zero, 0);
	EXPECT(moved, 0);
	EXPECT(popped, 0);
	EXPECT(loaded, 0);
	EXPECT(operand, 0);
	EXPECT(cold, 0);
	return failed;
}
