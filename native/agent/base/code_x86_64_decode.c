// SPDX-License-Identifier: Apache-2.0
#include "base/code_x86_64_decode.h"

// One bit for each opcode of the one-byte map: set if a ModRM byte follows.
static const uint32_t one_byte_modrm[8] = {
	0x0f0f0f0f, 0x0f0f0f0f, 0x00000000, 0x00000a08,
	0x0000ffff, 0x00000000, 0xff0f00c3, 0xc0c00000,
};

static bool bit(const uint32_t set[8], uint8_t at)
{
	return set[at / 32] >> (at % 32) & 1;
}

// Returns the size of the immediate operand in the one-byte map; -1 = not a valid opcode.
static int immediate(const struct sosc_insn *insn, bool small)
{
	uint8_t op = insn->opcode;
	int full = small ? 2 : 4;

	if (op < 0x40)
		return (op & 7) == 4 ? 1 : (op & 7) == 5 ? full : (op & 7) >= 6 ? -1 : 0;
	switch (op) {
	case 0x60 ... 0x62:
	case 0x82:
	case 0x9a:
	case 0xc4:
	case 0xc5:
	case 0xce:
	case 0xd4 ... 0xd6:
	case 0xea:
		return -1;
	case 0x68:
	case 0x69:
	case 0x81:
	case 0xa9:
	case 0xc7:
		return full;
	case 0xe8:
	case 0xe9:
		return 4;
	case 0x6a:
	case 0x6b:
	case 0x70 ... 0x7f:
	case 0x80:
	case 0x83:
	case 0xa8:
	case 0xb0 ... 0xb7:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xcd:
	case 0xe0 ... 0xe7:
	case 0xeb:
		return 1;
	case 0xa0 ... 0xa3:
		return 8;
	case 0xb8 ... 0xbf:
		return insn->wide ? 8 : full;
	case 0xc2:
	case 0xca:
		return 2;
	case 0xc8:
		return 3;
	case 0xf6:
		return (insn->reg & 7) < 2 ? 1 : 0;
	case 0xf7:
		return (insn->reg & 7) < 2 ? full : 0;
	default:
		return 0;
	}
}

static bool two_byte_modrm(uint8_t op)
{
	switch (op) {
	case 0x04 ... 0x0c:
	case 0x0e:
	case 0x30 ... 0x37:
	case 0x77:
	case 0x80 ... 0x8f:
	case 0xa0 ... 0xa2:
	case 0xa8 ... 0xaa:
	case 0xc8 ... 0xcf:
		return false;
	default:
		return true;
	}
}

static int two_byte_immediate(uint8_t op)
{
	switch (op) {
	case 0x70 ... 0x73:
	case 0xa4:
	case 0xac:
	case 0xba:
	case 0xc2:
	case 0xc4 ... 0xc6:
		return 1;
	case 0x80 ... 0x8f:
		return 4;
	default:
		return 0;
	}
}

struct cursor {
	const uint8_t *code;
	uint64_t at, room;
};

static uint8_t next(struct cursor *cursor)
{
	uint8_t byte = cursor->at < cursor->room ? cursor->code[cursor->at] : 0;

	cursor->at++;
	return byte;
}

static void read_modrm(struct cursor *cursor, uint8_t rex, struct sosc_insn *insn)
{
	uint8_t modrm = next(cursor), sib;

	insn->has_modrm = true;
	insn->mod = modrm >> 6;
	insn->reg = (uint8_t)((modrm >> 3 & 7) | (rex & 4) << 1);
	insn->rm = (uint8_t)((modrm & 7) | (rex & 1) << 3);
	if (insn->mod == 3)
		return;
	if ((modrm & 7) == 4) {
		sib = next(cursor);
		insn->index = (uint8_t)((sib >> 3 & 7) | (rex & 2) << 2);
		insn->rm = (uint8_t)((sib & 7) | (rex & 1) << 3);
		if (insn->mod == 0 && (sib & 7) == 5)
			cursor->at += 4;
	} else if (insn->mod == 0 && (modrm & 7) == 5) {
		insn->rip = true;
		insn->displacement_at = (uint32_t)cursor->at;
		cursor->at += 4;
	}
	cursor->at += insn->mod == 1 ? 1 : insn->mod == 2 ? 4 : 0;
}

// VEX and EVEX: general registers occur only in memory operands, and in a few BMI instructions;
// they are read like registers of other instructions.
static bool read_vector(struct cursor *cursor, uint8_t first, struct sosc_insn *insn)
{
	uint8_t rex, map, p0 = next(cursor);

	if (first == 0xc5) {
		rex = (uint8_t)(~p0 >> 5 & 4);
		map = 1;
	} else {
		rex = (uint8_t)(~p0 >> 5 & 7);
		map = p0 & (first == 0x62 ? 7 : 0x1f);
		(void)next(cursor);
		if (first == 0x62)
			(void)next(cursor);
	}
	insn->map = (uint8_t)(4 + map);
	insn->opcode = next(cursor);
	if (map == 1 && insn->opcode == 0x77 && first != 0x62)
		return true;
	read_modrm(cursor, rex, insn);
	if (map == 3 || (map == 1 && two_byte_immediate(insn->opcode) == 1))
		cursor->at++;
	return map >= 1 && map <= 6;
}

/** Decode the instruction at @code. Return false if this decoder does not know it. */
bool sosc_decode(const uint8_t *code, uint64_t room, struct sosc_insn *insn)
{
	struct cursor cursor = {.code = code, .room = room};
	bool small = false;
	uint8_t rex = 0, byte;
	int operand = 0;

	*insn = (struct sosc_insn){.index = 4};
	for (byte = next(&cursor);; byte = next(&cursor)) { // legacy prefixes
		if (byte == 0x66)
			small = true;
		else if (byte != 0xf0 && byte != 0xf2 && byte != 0xf3 && byte != 0x2e &&
			 byte != 0x36 && byte != 0x3e && byte != 0x26 && byte != 0x64 &&
			 byte != 0x65 && byte != 0x67)
			break;
		if (cursor.at > 14)
			return false;
	}
	if ((byte & 0xf0) == 0x40) {
		rex = byte;
		byte = next(&cursor);
	}
	insn->wide = rex & 8;
	if (byte == 0xc4 || byte == 0xc5 || byte == 0x62) {
		if (!read_vector(&cursor, byte, insn))
			return false;
	} else if (byte != 0x0f) {
		insn->opcode = byte;
		if (bit(one_byte_modrm, byte))
			read_modrm(&cursor, rex, insn);
		else
			insn->rm = (uint8_t)((byte & 7) | (rex & 1) << 3); // push, pop, mov
		operand = immediate(insn, small);
		if (byte == 0x8f && insn->reg & 7) // AMD's XOP prefix, not pop
			return false;
	} else {
		byte = next(&cursor);
		insn->map = byte == 0x38 ? 2 : byte == 0x3a ? 3 : 1;
		if (insn->map > 1)
			byte = next(&cursor);
		insn->opcode = byte;
		if (insn->map > 1 || two_byte_modrm(byte))
			read_modrm(&cursor, rex, insn);
		else
			insn->rm = (uint8_t)((byte & 7) | (rex & 1) << 3); // bswap
		operand = insn->map == 3 ? 1 : insn->map == 2 ? 0 : two_byte_immediate(byte);
	}
	if (operand < 0)
		return false;
	cursor.at += (uint64_t)operand;
	insn->length = (uint32_t)cursor.at;
	return cursor.at <= room && cursor.at <= 15;
}
