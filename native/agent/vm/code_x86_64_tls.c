// SPDX-License-Identifier: Apache-2.0
// Finds the variables that code uses: thread-local variables, and variables that are reached
// through pointers.

#include "base/memory.h"
#include "image/image.h"
#include "vm/rubystack.h"

enum {
	GENERAL = 14, // lea index(%rip), %rdi; call __tls_get_addr, both with padding
	LOCAL = 9, // mov %fs:offset, %register
	LONGEST = 7, // mov offset(%register), %register
};

/**
 * Find the first thread-local variable in @size bytes of code at @code: its offset from the thread
 * pointer, or the address of the argument with which __tls_get_addr is called (*index, which is 0
 * otherwise). Return whether there is one. The code is searched byte by byte, because these
 * sequences occur for no other purpose (the ABI's supplement for x86-64, 4.11).
 */
bool sosc_first_tls(uint64_t code, uint32_t size, uint64_t *index, int64_t *offset)
{
	const uint8_t *bytes = (const uint8_t *)code;
	const struct sosc_loaded *image = sosc_image_of(code);
	int32_t distance;

	if (!image || !sosc_code_readable(image, code) ||
	    !sosc_code_readable(image, code + size - 1))
		return false;
	for (uint32_t i = 0; i + GENERAL <= size; i++) {
		const uint8_t *at = bytes + i;

		*index = 0;
		// 66 lea; 66 66 rex.W call, or a call through a word that holds the address: 66
		// rex.W call
		if (at[0] == 0x66 && at[1] == 0x48 && at[2] == 0x8d && at[3] == 0x3d &&
		    at[8] == 0x66 &&
		    ((at[9] == 0x66 && at[10] == 0x48 && at[11] == 0xe8) ||
		     (at[9] == 0x48 && at[10] == 0xff && at[11] == 0x15))) {
			memcpy(&distance, at + 4, sizeof(distance));
			*index = code + i + 8 + (uint64_t)(int64_t)distance;
			return true;
		}
		if (at[0] == 0x64 && (at[1] & 0xfb) == 0x48 && at[2] == 0x8b &&
		    (at[3] & 0xc7) == 0x04 && at[4] == 0x25) {
			memcpy(&distance, at + 5, sizeof(distance));
			if (distance == 0x28)
				continue; // the stack protector's canary
			*offset = distance;
			return true;
		}
	}
	return false;
}

// Returns the address of a memory operand, given its ModRM byte at @modrm and that register @base
// holds @value. Returns 0 for other operands.
static uint64_t operand_at(const uint8_t *modrm, uint32_t base, uint64_t value)
{
	int32_t offset = 0;

	if ((*modrm & 7) != base || base == 4) // another base register, or an index register
		return 0;
	if (*modrm >> 6 == 1)
		return value + (uint64_t)(int64_t)(int8_t)modrm[1];
	if (*modrm >> 6 == 2)
		memcpy(&offset, modrm + 1, sizeof(offset));
	return *modrm >> 6 == 3 || (*modrm >> 6 == 0 && base == 5) ?
		       0 :
		       value + (uint64_t)(int64_t)offset;
}

/**
 * Return the address of the first memory operand that is not a pointer, in @size bytes of code at
 * @code. The code has to begin with loads of pointers, of which the first is in the image and each
 * leads to the next. Return 0 if the code begins with something else (Intel's manual, volume 2,
 * 2.1.5). @tid: id of this thread, for reading memory.
 */
uint64_t sosc_last_loaded(uint64_t code, uint32_t size, uint32_t tid)
{
	const struct sosc_loaded *image = sosc_image_of(code);
	const uint8_t *at = (const uint8_t *)code, *end = at + size - LONGEST - 1;
	uint32_t base = 8; // no register holds a pointer yet
	uint64_t addr = 0, value = 0;
	int32_t distance;

	if (!image || !sosc_code_readable(image, code) ||
	    !sosc_code_readable(image, code + size - 1))
		return 0;
	if (at[0] == 0xf3 && at[1] == 0x0f && at[2] == 0x1e && at[3] == 0xfa) // endbr64
		at += 4;
	while (at < end && at[0] == 0x48 && at[1] == 0x8b) { // mov memory, %register
		if (base == 8) {
			if ((at[2] & 0xc7) != 5)
				return 0;
			memcpy(&distance, at + 3, sizeof(distance));
			addr = (uint64_t)at + 7 + (uint64_t)(int64_t)distance;
		} else {
			addr = operand_at(at + 2, base, value);
		}
		if (!addr || sosc_read(tid, &value, addr, sizeof(value)) != sizeof(value))
			return 0;
		base = at[2] >> 3 & 7;
		at += (at[2] & 0xc7) == 5 ? 7 : at[2] >> 6 == 0 ? 3 : at[2] >> 6 == 1 ? 4 : 7;
	}
	if (base == 8 || at >= end)
		return 0;
	if (at[0] == 0x0f && (at[1] == 0xb6 || at[1] == 0xb7)) // movzbl, movzwl
		return operand_at(at + 2, base, value);
	return at[0] == 0x8b || at[0] == 0xf6 ? operand_at(at + 1, base, value) : 0; // mov, test
}
