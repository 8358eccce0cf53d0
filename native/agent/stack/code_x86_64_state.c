// SPDX-License-Identifier: Apache-2.0
// The registers that this code does not use, kept while an interpreter is asked: its functions may
// change what the function called has for arguments (psABI, 3.2.3; SDM 1, 13 "XSAVE").

#include "stack/callstack.h"

// x87, SSE, AVX, AVX-512: in 2,688 bytes at most
#define PARTS 0xe7

enum { HEADER = SOSC_STATE, HEADER_SIZE = 64 };

/** Keep them; @all: the processor has XSAVE, and so perhaps more than FXSAVE knows. */
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

/** They are what they were. */
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
