// SPDX-License-Identifier: Apache-2.0
// A jump over the loader's empty r_brk function. entry/arch_x86_64.py has the same rule, for writes
// by soscope from outside; tests/agent/test_jump.py compares the two.

#include "base/jump.h"

enum { RET = 0xc3, NOP = 0x90, BREAK = 0xcc, JUMP = 0xe9, JUMP_SIZE = 5 };

/**
 * Return the size of the padding instruction at @code; the instruction may end behind @end. Return
 * 0 if the instruction is not padding.
 */
uint32_t sosc_nop_size(const uint8_t *code, const uint8_t *end)
{
	uint32_t prefixes = 0;

	if (code == end)
		return 0;
	if (*code == NOP || *code == BREAK)
		return 1;
	while (code < end && (*code == 0x66 || *code == 0x2e))
		code++, prefixes++;
	if (prefixes && code < end && *code == NOP)
		return prefixes + 1;
	if (end - code < 3 || code[0] != 0x0f || code[1] != 0x1f)
		return 0;
	switch (code[2]) { // ModRM: (%rax), 8(%rax), 8(%rax,%rax), 32(%rax), 32(%rax,%rax)
	case 0x00:
		return prefixes + 3;
	case 0x40:
		return prefixes + 4;
	case 0x44:
		return prefixes + 5;
	case 0x80:
		return prefixes + 7;
	case 0x84:
		return prefixes + 8;
	default:
		return 0;
	}
}

/**
 * Compute the 8 bytes that make the empty function at @at jump to @to. @old are the
 * SOSC_EMPTY_FUNCTION bytes that are there now. Return false if the jump does not reach, if it
 * would overwrite more than the function and the padding behind it, or if the 8 bytes are not one
 * aligned word, which could not be written atomically.
 */
bool sosc_jump(uint64_t at, uint64_t to, const uint8_t old[SOSC_EMPTY_FUNCTION], uint8_t code[8])
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	int64_t distance = (int64_t)(to - (at + JUMP_SIZE));
	int32_t rel32 = (int32_t)distance;
	uint32_t end = memcmp(old, endbr64, sizeof(endbr64)) == 0 ? sizeof(endbr64) : 0, size;

	if (at % 8 || distance != rel32 || old[end++] != RET)
		return false;
	while (end < JUMP_SIZE) {
		size = sosc_nop_size(old + end, old + SOSC_EMPTY_FUNCTION);
		if (!size)
			return false;
		end += size;
	}
	memcpy(code, old, 8);
	code[0] = JUMP;
	memcpy(code + 1, &rel32, sizeof(rel32));
	return true;
}
