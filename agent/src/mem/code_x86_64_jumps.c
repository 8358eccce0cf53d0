// SPDX-License-Identifier: Apache-2.0
// A function that calls reach without any slot: where it is, and a jump in its place.

#include "image.h"
#include "memory.h"
#include "python.h"

/**
 * Where the first direct call leads in @size bytes of code at @code; 0: there is none. It is
 * looked for byte by byte: what it leads to is code of the same image, or it is none.
 */
uint64_t sosc_first_call(uint64_t code, uint32_t size, const struct sosc_loaded *image)
{
	const uint8_t *bytes = (const uint8_t *)code;

	for (uint32_t i = 0; i + 5 <= size; i++) {
		int32_t distance;
		uint64_t to;

		if (bytes[i] != 0xe8)
			continue;
		memcpy(&distance, &bytes[i + 1], sizeof(distance));
		to = code + i + 5 + (uint64_t)(int64_t)distance;
		if (sosc_image_of(to) == image && sosc_addr_executable(image, to))
			return to;
	}
	return 0;
}

/**
 * Have the function at @at begin with a jump to @to: SOSC_JUMP_SIZE bytes, of which the last ones
 * stay what they are. Nobody may be in them.
 */
bool sosc_write_jump(uint64_t at, uint64_t to)
{
	uint8_t bytes[SOSC_JUMP_SIZE];

	memcpy(bytes, (const void *)at, sizeof(bytes));
	bytes[0] = 0x48; // movabs $to, %rax
	bytes[1] = 0xb8;
	memcpy(&bytes[2], &to, sizeof(to));
	bytes[10] = 0xff; // jmp *%rax
	bytes[11] = 0xe0;
	return sosc_write(at, bytes, sizeof(bytes), true);
}
