// SPDX-License-Identifier: Apache-2.0
// What the code around a return address looks like.

#include "base/arch.h"
#include "stack/unwindrules.h"

/**
 * Return whether a call instruction ends at @code (Intel SDM 2, CALL): a direct call, or an
 * indirect call of 2, 3, 4, 6 or 7 bytes.
 */
bool sosc_is_behind_call(const uint8_t *code)
{
	static const uint8_t lengths[] = {2, 3, 4, 6, 7};

	if (code[-5] == 0xe8)
		return true;
	for (uint32_t i = 0; i < sizeof(lengths); i++) {
		const uint8_t *at = code - lengths[i];

		if (at[0] == 0xff && (at[1] >> 3 & 7) == 2)
			return true;
	}
	return false;
}

/**
 * Return whether a signal handler returns to @code, which calls rt_sigreturn(2). glibc has an
 * unwind table for this code, musl has none.
 */
bool sosc_returns_from_signal(const uint8_t *code)
{
	static const uint8_t move[SOSC_SIGNAL_RETURN_SIZE] = {0x48, 0xc7, 0xc0, 0x0f, 0,
							      0,    0,	  0x0f, 0x05};

	return memcmp(code, move, sizeof(move)) == 0;
}

/**
 * Return whether an expression is the one that linkers give to the stubs of .plt: the CFA is 8
 * bytes above the stack pointer, and 16 bytes from a certain instruction of each stub on. Then
 * @bytes is the distance at the instruction at @addr.
 */
bool sosc_is_plt_rule(const uint8_t *shape, uint64_t size, uint64_t addr, int64_t *bytes)
{
	// breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus
	static const uint8_t rule[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22};

	if (size != sizeof(rule))
		return false;
	for (uint32_t i = 0; i < sizeof(rule); i++)
		if (shape[i] != rule[i] && (i != 6 || shape[i] >> 4 != 3))
			return false;
	*bytes = (addr & 15) >= (shape[6] & 15u) ? 16 : 8;
	return true;
}
