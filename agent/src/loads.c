// SPDX-License-Identifier: Apache-2.0
// Loads of a function's address that can only be called. Compilers that build
// with -fno-plt load the address of a function they call several times into a
// callee-saved register. Where, on every way from the load, the register is only
// called through until it is filled anew, the address goes nowhere else, and the
// load may be given another one.

#include "agent.h"
#include "decode.h"

struct eh_frame_hdr { // LSB, ".eh_frame_hdr"
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
	struct {
		int32_t start, fde; // from the header
	} table[];
};

enum { UDATA4 = 0x03, PCREL_SDATA4 = 0x1b, DATAREL_SDATA4 = 0x3b };

// The function around @addr, by the unwind table.
static bool function_at(const struct sosc_loaded *image, uint64_t addr, uint64_t *start,
			uint64_t *end)
{
	const struct eh_frame_hdr *hdr = NULL;
	const uint32_t *fde;
	uint32_t low = 0, high;

	for (uint32_t i = 0; i < image->phnum; i++)
		if (image->phdr[i].p_type == PT_GNU_EH_FRAME)
			hdr = (const void *)(image->bias + image->phdr[i].p_vaddr);
	if (!hdr || hdr->version != 1 || hdr->count_encoding != UDATA4 ||
	    hdr->table_encoding != DATAREL_SDATA4 || !hdr->count)
		return false;
	high = hdr->count;
	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if ((uint64_t)hdr + (uint64_t)(int64_t)hdr->table[middle].start <= addr)
			low = middle;
		else
			high = middle;
	}
	*start = (uint64_t)hdr + (uint64_t)(int64_t)hdr->table[low].start;
	fde = (const void *)((uint64_t)hdr + (uint64_t)(int64_t)hdr->table[low].fde);
	// length, CIE, start, size: 4 bytes each where the encoding is the usual one
	if ((uint64_t)&fde[2] + (uint64_t)(int64_t)(int32_t)fde[2] != *start)
		return false;
	*end = *start + fde[3];
	return addr >= *start && addr < *end && sosc_addr_executable(image, *end - 1);
}

static bool callee_saved(uint8_t reg)
{
	return reg == 3 || reg == 5 || reg >= 12; // rbx, rbp, r12 to r15
}

static bool reads_memory_by(const struct sosc_insn *insn, uint8_t reg)
{
	return insn->has_modrm && insn->mod != 3 && !insn->rip &&
	       (insn->rm == reg || insn->index == reg);
}

enum effect {
	NONE, // does not name the register
	CALLS, // calls or jumps through it
	FILLS, // gives it another value without looking at the old one
	READS, // anything else: the value may go anywhere
};

static enum effect effect_on(const struct sosc_insn *insn, uint8_t reg)
{
	bool in_rm = insn->has_modrm && insn->mod == 3 && insn->rm == reg;
	bool in_reg = insn->has_modrm && insn->reg == reg;
	uint8_t op = insn->opcode;

	if (reads_memory_by(insn, reg))
		return READS;
	if (insn->map >= 6 && insn->opcode >= 0xf0)
		return READS; // BMI: a general register in VEX.vvvv
	if (insn->map == 0 && !insn->has_modrm) {
		if (op >= 0x58 && op <= 0x5f && insn->rm == reg) // pop
			return FILLS;
		if (op >= 0xb8 && op <= 0xbf && insn->rm == reg) // mov immediate
			return FILLS;
		if (((op >= 0x50 && op <= 0x57) || (op >= 0x90 && op <= 0x97)) && insn->rm == reg)
			return READS; // push, xchg
		return op == 0xc9 && reg == 5 ? READS : NONE; // leave
	}
	if (insn->map == 0 && op == 0xff && (insn->reg & 7) >= 2 && (insn->reg & 7) <= 5)
		return in_rm ? CALLS : NONE;
	if (insn->map == 0 && (op == 0x8b || op == 0x8d)) // mov and lea to a register
		return op == 0x8b && in_rm ? READS : in_reg ? FILLS : NONE;
	if (insn->map == 0 && op == 0x89) // mov from a register
		return in_reg ? READS : in_rm ? FILLS : NONE;
	if (insn->map == 0 && (op == 0x31 || op == 0x33) && in_rm && in_reg)
		return FILLS;
	if (insn->map == 1 && (op == 0xa2 || op == 0xc7) && reg == 3)
		return READS; // cpuid, cmpxchg16b
	if (insn->map == 1 && op >= 0xc8 && op <= 0xcf)
		return insn->rm == reg ? READS : NONE;
	return in_rm || in_reg ? READS : NONE;
}

// Where the instruction may jump to, 0 = nowhere; *falls: may go on behind it.
static uint64_t jump_target(const struct sosc_insn *insn, uint64_t at, bool *falls)
{
	const uint8_t *code = (const uint8_t *)at;
	uint64_t next = at + insn->length;
	int32_t far;

	*falls = true;
	__builtin_memcpy(&far, (const void *)(next - 4), sizeof(far));
	if (insn->map == 1 && insn->opcode >= 0x80 && insn->opcode <= 0x8f)
		return next + (uint64_t)(int64_t)far;
	if (insn->map != 0)
		return 0;
	if ((insn->opcode & 0xf0) == 0x70 || (insn->opcode >= 0xe0 && insn->opcode <= 0xe3))
		return next + (uint64_t)(int64_t)(int8_t)code[insn->length - 1];
	*falls = insn->opcode != 0xe9 && insn->opcode != 0xeb && insn->opcode != 0xc3 &&
		 insn->opcode != 0xc2 && insn->opcode != 0xf4 &&
		 !(insn->opcode == 0xff && (insn->reg & 7) >= 4 && (insn->reg & 7) <= 5);
	if (insn->opcode == 0xeb)
		return next + (uint64_t)(int64_t)(int8_t)code[insn->length - 1];
	return insn->opcode == 0xe9 ? next + (uint64_t)(int64_t)far : 0;
}

enum { FUNCTION_MAX = 65536, PENDING_MAX = 512 };

// Follows the value of @reg from the instruction behind its load, on every way.
static bool only_called_from(uint64_t from, uint64_t start, uint64_t end, uint8_t reg)
{
	static uint8_t visited[FUNCTION_MAX / 8];
	static uint64_t pending[PENDING_MAX];
	uint32_t count = 0;

	memset(visited, 0, (end - start) / 8 + 1);
	pending[count++] = from;
	while (count) {
		uint64_t at = pending[--count];
		bool falls = true;

		while (falls) {
			struct sosc_insn insn;
			uint64_t target, place = at - start;
			enum effect effect;

			if (at < start || at >= end)
				return false; // a tail call, or a cold part elsewhere
			if (visited[place / 8] & 1u << place % 8)
				break;
			visited[place / 8] |= (uint8_t)(1u << place % 8);
			if (!sosc_decode((const uint8_t *)at, end - at, &insn))
				return false;
			effect = effect_on(&insn, reg);
			if (effect == READS)
				return false;
			if (effect == FILLS)
				break;
			target = jump_target(&insn, at, &falls);
			if (insn.map == 0 && insn.opcode == 0xff && !falls && effect != CALLS)
				return false; // a jump table
			if (target) {
				if (count == PENDING_MAX)
					return false;
				pending[count++] = target;
			}
			at += insn.length;
		}
	}
	return true;
}

// The end of the instruction whose displacement is at @displacement, 0 = there
// is none: the bytes look like one, but belong to others.
static uint64_t load_end(uint64_t start, uint64_t end, uint64_t displacement)
{
	struct sosc_insn insn;

	for (uint64_t at = start; at < end; at += insn.length) {
		if (!sosc_decode((const uint8_t *)at, end - at, &insn))
			return 0;
		if (insn.displacement_at && at + insn.displacement_at == displacement)
			return at + insn.length;
	}
	return 0;
}

/**
 * Whether the four bytes at @displacement belong to a `mov slot(%rip), %reg`
 * whose register is only called through.
 */
bool sosc_load_is_called(const struct sosc_loaded *image, uint64_t displacement)
{
	const uint8_t *modrm = (const uint8_t *)displacement - 1;
	uint64_t start, end, behind;
	uint8_t rex = modrm[-2], reg;

	if ((rex & 0xfb) != 0x48 || modrm[-1] != 0x8b || (*modrm & 0xc7) != 5)
		return false;
	reg = (uint8_t)((*modrm >> 3 & 7) | (rex & 4) << 1);
	if (!callee_saved(reg) || !function_at(image, displacement, &start, &end) ||
	    end - start > FUNCTION_MAX)
		return false;
	behind = load_end(start, end, displacement);
	return behind && only_called_from(behind, start, end, reg);
}
