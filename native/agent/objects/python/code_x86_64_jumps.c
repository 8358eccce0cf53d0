// SPDX-License-Identifier: Apache-2.0
// A function that is called directly, without any slot: finds its address, and writes a jump in its
// place.

#include "base/code_x86_64_decode.h"
#include "base/memory.h"
#include "image/image.h"
#include "objects/python/python.h"

enum {
	RETURNS_MOST = 19, // most bytes of a function that only returns a word
	SOSC_CALL_WITHIN = 128, // bytes of a function in which its first call is searched for
	RDI = 7,
};

// address behind the four bytes of the distance, plus the distance
static uint64_t relative(const uint8_t *distance)
{
	int32_t far;

	memcpy(&far, distance, sizeof(far));
	return (uint64_t)distance + sizeof(far) + (uint64_t)(int64_t)far;
}

// Returns whether the instruction leaves rdi unchanged. Any instruction that is not listed is taken
// to change it.
static bool keeps_rdi(const struct sosc_insn *insn)
{
	bool in_rm = insn->has_modrm && insn->mod == 3 && insn->rm == RDI;
	bool in_reg = insn->has_modrm && insn->reg == RDI;
	uint8_t op = insn->opcode;

	if (insn->map == 1)
		return (op >= 0x80 && op <= 0x8f) || op == 0x1e || op == 0x1f; // jcc, endbr64, nop
	if (insn->map)
		return false;
	switch (op) {
	case 0x39: // cmp
	case 0x3b:
	case 0x50 ... 0x57: // push
	case 0x70 ... 0x7f: // jcc
	case 0x85: // test
	case 0x90: // nop
	case 0xc3: // ret
	case 0xc9: // leave
	case 0xe9: // jmp
	case 0xeb:
		return true;
	case 0x58 ... 0x5f: // pop
		return insn->rm != RDI;
	case 0x89: // mov from a register
	case 0x80: // arithmetic with an immediate operand
	case 0x81:
	case 0x83:
	case 0xc7:
		return !in_rm;
	case 0x8b: // mov to a register
	case 0x8d: // lea
		return !in_reg;
	default:
		return false;
	}
}

/**
 * Return the address of the function that the function of @size bytes at @code first calls
 * directly, if it lies in the same image and is called with the first argument unchanged. Otherwise
 * return 0. Only the first SOSC_CALL_WITHIN bytes are searched.
 */
uint64_t sosc_first_call(uint64_t code, uint64_t size, const struct sosc_loaded *image)
{
	const uint8_t *bytes = (const uint8_t *)code;
	struct sosc_insn insn;

	if (size > SOSC_CALL_WITHIN)
		size = SOSC_CALL_WITHIN;
	if (!size || !sosc_code_readable(image, code) ||
	    !sosc_code_readable(image, code + size - 1))
		return 0;
	for (uint64_t at = 0; at < size; at += insn.length) {
		if (!sosc_decode(&bytes[at], size - at, &insn))
			return 0;
		if (insn.map == 0 && insn.opcode == 0xe8) {
			uint64_t to = relative(&bytes[at + insn.length - 4]);

			return sosc_addr_executable(image, to) ? to : 0;
		}
		if (!keeps_rdi(&insn))
			return 0;
	}
	return 0;
}

/**
 * Return the address of the word that the function at @code returns, or 0 if the function does
 * anything else. The word lies at a fixed address, or at a distance from a pointer that lies at a
 * fixed address.
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
 * Write a jump to @to at the start of the function at @at. SOSC_JUMP_SIZE bytes are written, of
 * which the last ones keep their contents. No thread may be executing any of them.
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
