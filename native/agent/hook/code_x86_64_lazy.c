// SPDX-License-Identifier: Apache-2.0
// Recognises slots that are not bound yet by the linker's stubs to which they lead.

#include "hook/lazy.h"
#include "image/image.h"

// Reads code bytewise, because the linker's stubs may be the last bytes of their segment.
static void read_code(const struct sosc_loaded *image, uint64_t addr, uint8_t code[16])
{
	for (int i = 0; i < 16; i++)
		code[i] = sosc_code_readable(image, addr + (uint64_t)i) ?
				  *(const uint8_t *)(addr + (uint64_t)i) :
				  0;
}

enum sosc_lazy_way sosc_lazy_way(const struct sosc_loaded *image, uint64_t value, uint64_t index)
{
	uint8_t bytes[16];
	const uint8_t *code = bytes;
	uint32_t word;

	if (!image->pltgot || !image->pltgot[2] || !sosc_addr_executable(image, value))
		return BOUND;
	if (!sosc_code_readable(image, value))
		// the safe answer: if the slot is bound to a function of its own image, it is bound
		// once more
		return LAZY_REGISTER;
	read_code(image, value, bytes);
	memcpy(&word, code, 4);
	if (word == 0xfa1e0ff3) // endbr64
		code += 4;
	memcpy(&word, code + 1, 4);
	if (code[0] == 0x68 && word == index) // push $index
		return LAZY_PUSH;
	for (int i = 0; i < 4; i++) { // PLT0: push GOT[1](%rip)
		uint64_t next = value + (uint64_t)(code - bytes) + (uint64_t)i + 6;

		memcpy(&word, code + i + 2, 4);
		if (code[i] == 0xff && code[i + 1] == 0x35 &&
		    next + (uint64_t)(int64_t)(int32_t)word == (uint64_t)&image->pltgot[1])
			return LAZY_REGISTER;
	}
	return BOUND;
}
