// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Bytes that look like a call through a slot and are a number: a function whose address
// is taken is hooked where it is called, and nowhere else.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>

COUNTED(f0);

unsigned long number(void); // ff 15 and the distance to f0's slot are in its operand
int call(int x);
void *address(void);

__asm__(".text\n"
	".globl number, call, address\n"
	".type number, @function\n"
	".type call, @function\n"
	".type address, @function\n"
	"number:\n"
	".cfi_startproc\n"
	".byte 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0xb8, 0xff, 0x15\n"
	".long f0@GOTPCREL - 4\n"
	".byte 0x34, 0x12\n"
	"ret\n"
	".cfi_endproc\n"
	"call:\n"
	".cfi_startproc\n"
	"endbr64\n"
	"sub $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"call *f0@GOTPCREL(%rip)\n"
	"add $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"ret\n"
	".cfi_endproc\n"
	"address:\n"
	".cfi_startproc\n"
	"endbr64\n"
	"mov f0@GOTPCREL(%rip), %rax\n"
	"ret\n"
	".cfi_endproc\n");

int main(void)
{
	int sum = 0;
	for (int i = 0; i < 20; i++) {
		COUNT(f0);
		sum += call(i);
	}
	CHECK(address() == dlsym(RTLD_DEFAULT, "f0"));
	REPORT(f0);
	printf("chance %lx %d\n", number(), sum);
	return 0;
}
