// SPDX-License-Identifier: Apache-2.0
// A function that calls reach without any slot: where it is, and a jump in its place.

#include "image.h"
#include "memory.h"
#include "python.h"

enum { RETURNS_MOST = 19 }; // bytes of a function that returns a word

/**
 * Where the first direct call leads in @size bytes of code at @code; 0: there is none. It is
 * looked for byte by byte: what it leads to is code of the same image, or it is none.
 */
uint64_t sosc_first_call(uint64_t code, uint32_t size, const struct sosc_loaded *image)
{
	const uint8_t *bytes = (const uint8_t *)code;

	if (!sosc_code_readable(image, code) || !sosc_code_readable(image, code + size - 1))
		return 0;
	for (uint32_t i = 0; i + 5 <= size; i++) {
		int32_t distance;
		uint64_t to;

		if (bytes[i] != 0xe8)
			continue;
		memcpy(&distance, &bytes[i + 1], sizeof(distance));
		to = code + i + 5 + (uint64_t)(int64_t)distance;
		if (sosc_addr_executable(image, to))
			return to;
	}
	return 0;
}

static uint64_t relative(const uint8_t *distance) // to what is behind its four bytes
{
	int32_t far;

	memcpy(&far, distance, sizeof(far));
	return (uint64_t)distance + sizeof(far) + (uint64_t)(int64_t)far;
}

/**
 * Where the word is that the function at @code returns, if it does nothing else; else 0. It is at an
 * address of its own, or so far behind one that is.
 */
uint64_t sosc_returned_word(uint64_t code)
{
	static const uint8_t branch_target[] = {0xf3, 0x0f, 0x1e, 0xfa}; // endbr64
	const uint8_t *bytes = (const uint8_t *)code;
	const struct sosc_loaded *image = sosc_image_of(code);
	int32_t far;

	if (!image || !sosc_code_readable(image, code) ||
	    !sosc_code_readable(image, code + RETURNS_MOST - 1))
		return 0;
	if (!memcmp(bytes, branch_target, sizeof(branch_target)))
		bytes += sizeof(branch_target);
	if (bytes[0] != 0x48 || bytes[1] != 0x8b || bytes[2] != 0x05) // mov relative(%rip), %rax
		return 0;
	if (bytes[7] == 0xc3) // ret
		return relative(&bytes[3]);
	if (bytes[7] != 0x48 || bytes[8] != 0x8b || bytes[9] != 0x80 || bytes[14] != 0xc3)
		return 0;
	memcpy(&far, &bytes[10], sizeof(far)); // mov far(%rax), %rax; ret
	return *(const uint64_t *)relative(&bytes[3]) + (uint64_t)(int64_t)far;
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
