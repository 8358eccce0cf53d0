// SPDX-License-Identifier: Apache-2.0
// Hooks to preload, for a floor: the least that can be done when code reports a call. Made with
// -DRETURN (mcount does nothing), -DCOUNT (it counts by function and return address, in a table of
// the thread's own that never fills) or -DCLOCK (__cyg_profile_func_enter and _exit read the clock,
// and add it up).

#ifdef RETURN
__asm__(".globl mcount, __fentry__\nmcount:\n__fentry__:\n\tret\n");
#endif

#ifdef COUNT
struct count {
	unsigned long from, function, calls, unused;
};

__thread struct count counts[4096] __attribute__((tls_model("initial-exec"), aligned(64)));

__asm__(".globl mcount\n"
	"mcount:\n"
	"	push	%rax\n"
	"	push	%rdx\n"
	"	mov	16(%rsp), %r11\n"
	"	mov	8(%rbp), %rdx\n"
	"	lea	(%rdx, %rdx, 4), %rax\n"
	"	add	%r11, %rax\n"
	"	shr	$2, %rax\n"
	"	and	$0xfff, %eax\n"
	"	shl	$5, %rax\n"
	"	add	counts@gottpoff(%rip), %rax\n"
	"	cmp	%rdx, %fs:(%rax)\n"
	"	jne	2f\n"
	"	cmp	%r11, %fs:8(%rax)\n"
	"	jne	2f\n"
	"	incq	%fs:16(%rax)\n"
	"1:	pop	%rdx\n"
	"	pop	%rax\n"
	"	ret\n"
	"2:	mov	%rdx, %fs:(%rax)\n"
	"	mov	%r11, %fs:8(%rax)\n"
	"	movq	$1, %fs:16(%rax)\n"
	"	jmp	1b\n");
#endif

#ifdef CLOCK
static __thread unsigned long start __attribute__((tls_model("initial-exec")));
static __thread unsigned long sum __attribute__((tls_model("initial-exec")));

void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from)
{
	(void)function;
	(void)from;
	start = __builtin_ia32_rdtsc();
}

void __cyg_profile_func_exit(void *function, void *from)
{
	(void)function;
	(void)from;
	sum += __builtin_ia32_rdtsc() - start;
}
#endif
