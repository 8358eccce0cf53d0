// SPDX-License-Identifier: Apache-2.0
/**
 * Decode length and operands of one x86-64 instruction, as far as needed to tell which general
 * registers it uses (Intel SDM volume 2, chapter 2, appendix A).
 */
#ifndef SOSC_CODE_X86_64_DECODE_H
#define SOSC_CODE_X86_64_DECODE_H

#include <stdbool.h>
#include <stdint.h>

struct sosc_insn {
	uint32_t length;
	uint8_t map; // 0: one byte; 1: 0f; 2: 0f 38; 3: 0f 3a; 4 and more: vector
	uint8_t opcode;
	bool has_modrm;
	bool wide; // REX.W
	bool rip; // the memory operand is relative to rip
	uint8_t mod;
	uint8_t reg; // extended by REX.R
	uint8_t rm; // extended by REX.B: a register if mod is 3, else the base register, if any
	uint8_t index; // extended by REX.X; 4 = none
	uint32_t displacement_at; // offset in the instruction of a rip-relative displacement
};

bool sosc_decode(const uint8_t *code, uint64_t room, struct sosc_insn *insn);

#endif
