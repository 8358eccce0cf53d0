// SPDX-License-Identifier: Apache-2.0
// Saving the vector registers while an interpreter is asked. Its functions may change registers
// that hold arguments of the called function (psABI, 3.2.3; SDM 1, 13 "XSAVE").

#include "stack/callstack.h"

// x87, SSE, AVX, AVX-512: at most 2,688 bytes
#define PARTS 0xe7

enum { HEADER = SOSC_STATE, HEADER_SIZE = 64 };

/**
 * Save the registers. @all: the processor has XSAVE, so there may be registers that FXSAVE does not
 * save.
 */
void sosc_state_keep(uint8_t to[SOSC_ALL_STATE], bool all)
{
	if (!all) {
		__asm__ volatile("fxsave64 %0" : "=m"(*(uint8_t(*)[SOSC_STATE])to));
		return;
	}
	memset(to + HEADER, 0, HEADER_SIZE);
	__asm__ volatile("xsave64 %0"
			 : "+m"(*(uint8_t(*)[SOSC_ALL_STATE])to)
			 : "a"(PARTS), "d"(0)
			 : "memory");
}

/** Restore the registers. */
void sosc_state_put_back(const uint8_t from[SOSC_ALL_STATE], bool all)
{
	if (all)
		__asm__ volatile("xrstor64 %0"
				 :
				 : "m"(*(const uint8_t(*)[SOSC_ALL_STATE])from), "a"(PARTS), "d"(0)
				 : "memory");
	else
		__asm__ volatile("fxrstor64 %0" : : "m"(*(const uint8_t(*)[SOSC_STATE])from));
}
