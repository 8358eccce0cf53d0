// SPDX-License-Identifier: Apache-2.0
/* A library whose constructor leaves nothing of the registers and of errno as it was. */

#include <errno.h>
#include <time.h>

__attribute__((weak)) extern volatile int guest_loads;

#define EACH(CODE)                                                                               \
	__asm__ volatile(CODE(0) CODE(1) CODE(2) CODE(3) CODE(4) CODE(5) CODE(6) CODE(7) CODE(8) \
				 CODE(9) CODE(10) CODE(11) CODE(12) CODE(13) CODE(14) CODE(15))
#define SSE(N) "pcmpeqd %xmm" #N ", %xmm" #N "\n"
#define AVX(N) "vcmptrueps %ymm" #N ", %ymm" #N ", %ymm" #N "\n"
#define AVX512(N) "vpternlogd $255, %zmm" #N ", %zmm" #N ", %zmm" #N "\n"

static void spoil(void)
{
	unsigned int control = 0x5f80; /* rounds down */
	unsigned short word = 0x77f; /* rounds down */

	EACH(SSE);
	if (__builtin_cpu_supports("avx"))
		EACH(AVX);
	if (__builtin_cpu_supports("avx512f"))
		EACH(AVX512);
	__asm__ volatile("fninit\nfldpi\nfldpi\nfldl2e\nfldcw %0\nldmxcsr %1" ::"m"(word),
			 "m"(control));
}

/* What the psABI promises to every function. */
static int is_clean(void)
{
	unsigned int environment[7], control;
	unsigned long flags;

	__asm__ volatile("fnstenv %0\nfldenv %0\nstmxcsr %1\npushfq\npop %2"
			 : "=m"(environment), "=m"(control), "=r"(flags)::"memory");
	return (environment[0] & 0xffff) == 0x37f && (environment[2] & 0xffff) == 0xffff &&
	       (control & 0xffc0) == 0x1f80 && !(flags & 0x400);
}

__attribute__((constructor)) static void begin(void)
{
	struct timespec nap = {0, 5000000};
	int clean = is_clean();

	nanosleep(&nap, 0);
	if (clean && &guest_loads)
		__atomic_add_fetch(&guest_loads, 1, __ATOMIC_SEQ_CST);
	spoil();
	errno = 77;
}

__attribute__((destructor)) static void end(void)
{
	spoil();
	errno = 78;
}
