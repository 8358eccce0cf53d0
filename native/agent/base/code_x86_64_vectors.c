// SPDX-License-Identifier: Apache-2.0
// Whole vector registers, as they hold a function's arguments or its result.

#include "base/arch.h"

enum {
	XMM = 16, // bytes
	YMM = 32,
	ZMM = 64,
	OSXSAVE = 1 << 27, // cpuid 1, ecx
	AVX512F = 1 << 16, // cpuid 7, ebx
	YMM_STATE = 0x06, // xgetbv 0
	ZMM_STATE = 0xe6,
};

// Returns the size in bytes of the widest vector register that processor and kernel support. The
// result is kept, because cpuid takes microseconds in a virtual machine.
static uint32_t widest(void)
{
	static uint32_t known;
	uint32_t eax = 1, ebx, ecx = 0, edx, state, size = XMM;

	if (known)
		return known;
	__asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
	if (ecx & OSXSAVE) {
		__asm__ volatile("xgetbv" : "=a"(state), "=d"(edx) : "c"(0));
		if ((state & YMM_STATE) == YMM_STATE)
			size = YMM;
		eax = 7, ecx = 0;
		__asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
		if (ebx & AVX512F && (state & ZMM_STATE) == ZMM_STATE)
			size = ZMM;
	}
	known = size;
	return size;
}

static void store_xmm(uint8_t *to)
{
	__asm__ volatile("movups %%xmm0, (%0)\n"
			 "movups %%xmm1, 16(%0)\n"
			 "movups %%xmm2, 32(%0)\n"
			 "movups %%xmm3, 48(%0)\n"
			 "movups %%xmm4, 64(%0)\n"
			 "movups %%xmm5, 80(%0)\n"
			 "movups %%xmm6, 96(%0)\n"
			 "movups %%xmm7, 112(%0)\n"
			 :
			 : "r"(to)
			 : "memory");
}

static void store_ymm(uint8_t *to)
{
	__asm__ volatile("vmovups %%ymm0, (%0)\n"
			 "vmovups %%ymm1, 32(%0)\n"
			 "vmovups %%ymm2, 64(%0)\n"
			 "vmovups %%ymm3, 96(%0)\n"
			 "vmovups %%ymm4, 128(%0)\n"
			 "vmovups %%ymm5, 160(%0)\n"
			 "vmovups %%ymm6, 192(%0)\n"
			 "vmovups %%ymm7, 224(%0)\n"
			 :
			 : "r"(to)
			 : "memory");
}

static void store_zmm(uint8_t *to)
{
	__asm__ volatile("vmovups %%zmm0, (%0)\n"
			 "vmovups %%zmm1, 64(%0)\n"
			 "vmovups %%zmm2, 128(%0)\n"
			 "vmovups %%zmm3, 192(%0)\n"
			 "vmovups %%zmm4, 256(%0)\n"
			 "vmovups %%zmm5, 320(%0)\n"
			 "vmovups %%zmm6, 384(%0)\n"
			 "vmovups %%zmm7, 448(%0)\n"
			 :
			 : "r"(to)
			 : "memory");
}

/**
 * Copy the first @size bytes (16, 32 or 64) of each vector argument register to @to. Changes no
 * register. Return false if the processor has no registers of that size.
 */
bool sosc_vectors(uint8_t to[SOSC_VECTORS_SIZE], uint32_t size)
{
	if (size > widest())
		return false;
	if (size == ZMM)
		store_zmm(to);
	else if (size == YMM)
		store_ymm(to);
	else
		store_xmm(to);
	return true;
}
