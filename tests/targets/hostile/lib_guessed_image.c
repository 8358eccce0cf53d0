/* SPDX-License-Identifier: Apache-2.0 */
/* A library with many calls that nobody makes. Behind each is a place that a call could return to. */
void many(void);

__asm__(".text\n"
	".globl many\n"
	".type many, @function\n"
	"many:\n"
	"	.cfi_startproc\n"
	"	.rept 200000\n"
	"	call 1f\n"
	"	.endr\n"
	"1:	ret\n"
	"	.cfi_endproc\n"
	".size many, . - many\n");
