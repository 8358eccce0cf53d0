// SPDX-License-Identifier: Apache-2.0
// Loads of a function's address that is used only for calls. Compilers that build with -fno-plt
// load the address of a function that they call several times into a callee-saved register, and
// other addresses into rax. The load may be given another address if the address goes nowhere else.
// That is so if, on every path from the load, the register and its copies in other registers are
// only called through (or compared with 0) until they get new values.

#include "base/code_x86_64_decode.h"
#include "base/memory.h"
#include "image/frame.h"
#include "image/loads.h"

enum { RAX = 0, R10 = 10, R11 = 11 };

static bool callee_saved(uint8_t reg)
{
	return reg == 3 || reg == 5 || reg >= 12; // rbx, rbp, r12 to r15
}

// Returns whether the register is followed and has another value after a call. Registers that may
// hold arguments are not followed, because a call through such a register also passes it.
static bool scratch(uint8_t reg)
{
	return reg == RAX || reg == R10 || reg == R11;
}

// Returns whether the instruction names every use of rax. Many instructions use rax without naming
// it.
static bool explicit_about_rax(const struct sosc_insn *insn)
{
	uint8_t op = insn->opcode;

	if (insn->map == 1)
		return (op >= 0x10 && op <= 0x17) || op == 0x1f || (op >= 0x28 && op <= 0x2f) ||
		       (op >= 0x40 && op <= 0x4f) || (op >= 0x51 && op <= 0x7f) ||
		       (op >= 0x80 && op <= 0x9f) || op == 0xaf || op == 0xb6 || op == 0xb7 ||
		       op == 0xbe || op == 0xbf || op == 0xc0 || op == 0xc1 || op >= 0xd0;
	if (insn->map != 0)
		return false;
	if (op < 0x40)
		return (op & 7) < 4;
	return (op >= 0x50 && op <= 0x5f) || op == 0x63 || op == 0x68 || op == 0x69 || op == 0x6a ||
	       op == 0x6b || (op >= 0x70 && op <= 0x8f) || (op >= 0xb0 && op <= 0xbf) ||
	       op == 0xc6 || op == 0xc7 || op == 0xc9 || op == 0xe8 || op == 0xe9 || op == 0xeb ||
	       op == 0xff;
}

static bool reads_memory_by(const struct sosc_insn *insn, uint8_t reg)
{
	return insn->has_modrm && insn->mod != 3 && !insn->rip &&
	       (insn->rm == reg || insn->index == reg);
}

// Returns whether ModRM.reg is part of the opcode and names no register.
static bool is_group(const struct sosc_insn *insn)
{
	uint8_t op = insn->opcode;

	if (insn->map == 1)
		return op == 0x1f;
	return insn->map == 0 &&
	       ((op >= 0x80 && op <= 0x83) || op == 0x8f || op == 0xc0 || op == 0xc1 ||
		op == 0xc6 || op == 0xc7 || (op >= 0xd0 && op <= 0xd3) || op == 0xf6 ||
		op == 0xf7 || op >= 0xfe);
}

// Returns whether the instruction uses ah: without a REX prefix the registers 4 to 7 of byte
// operations are ah to bh.
static bool names_ah(const struct sosc_insn *insn)
{
	return insn->has_modrm && !(insn->opcode & 1) &&
	       ((insn->reg == 4 && !is_group(insn)) || (insn->mod == 3 && insn->rm == 4));
}

enum effect {
	NONE, // does not use the register
	CALLS, // calls or jumps through the register
	FILLS, // gives the register a new value without using the old one
	READS, // anything else: the value may be copied anywhere
};

static enum effect effect_on(const struct sosc_insn *insn, uint8_t reg)
{
	bool in_rm = insn->has_modrm && insn->mod == 3 && insn->rm == reg;
	bool in_reg = insn->has_modrm && insn->reg == reg && !is_group(insn);
	uint8_t op = insn->opcode;

	if (reads_memory_by(insn, reg))
		return READS;
	if (insn->map >= 6 && insn->opcode >= 0xf0)
		return READS; // BMI: a general register in VEX.vvvv
	if (reg == RAX && (!explicit_about_rax(insn) || names_ah(insn)))
		return READS; // also for ret, which returns rax as the result
	if (reg >= R10 && reg <= R11 && insn->map == 1 && op == 0x05)
		return reg == R10 ? READS : FILLS; // syscall
	if (insn->map == 0 && !insn->has_modrm) {
		if (op >= 0x58 && op <= 0x5f && insn->rm == reg) // pop
			return FILLS;
		if (op >= 0xb8 && op <= 0xbf && insn->rm == reg) // mov immediate
			return FILLS;
		if (op >= 0xb0 && op <= 0xb7 && (insn->rm == reg || reg == RAX))
			return READS; // changes one byte of the value
		if (op == 0xe8 && scratch(reg))
			return FILLS; // call
		if (((op >= 0x50 && op <= 0x57) || (op >= 0x90 && op <= 0x97)) && insn->rm == reg)
			return READS; // push, xchg
		return op == 0xc9 && reg == 5 ? READS : NONE; // leave
	}
	if (insn->map == 0 && op == 0xff && (insn->reg & 7) >= 2 && (insn->reg & 7) <= 5)
		return in_rm ? CALLS : scratch(reg) && (insn->reg & 7) <= 3 ? FILLS : NONE;
	if (insn->map == 0 && op == 0x85 && in_rm && in_reg)
		return NONE; // test: compares with 0
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

static bool is_call(const struct sosc_insn *insn)
{
	return insn->map == 0 &&
	       (insn->opcode == 0xe8 ||
		(insn->opcode == 0xff && (insn->reg & 7) >= 2 && (insn->reg & 7) <= 3));
}

// Returns where the instruction may jump to, 0 = nowhere. *falls: execution may continue behind it.
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

// Returns the register that gets a copy of a register in @held, as a bit. Only a plain 64-bit move
// to a register that is followed counts. Returns 0 for other instructions.
static uint32_t copied_to(const struct sosc_insn *insn, uint32_t held)
{
	uint8_t from = insn->opcode == 0x89 ? insn->reg : insn->rm;
	uint8_t to = insn->opcode == 0x89 ? insn->rm : insn->reg;

	if (insn->map != 0 || (insn->opcode != 0x89 && insn->opcode != 0x8b) || insn->mod != 3 ||
	    !insn->wide || !(held & 1u << from) || !(callee_saved(to) || scratch(to)))
		return 0;
	return 1u << to;
}

enum { SCRATCH = 1 << RAX | 1 << R10 | 1 << R11 };

// Stores in @behind which registers may hold the value after the instruction, if the registers in
// @held may hold it before. Returns false if the instruction may do anything with the value.
static bool held_behind(const struct sosc_insn *insn, uint32_t held, uint32_t *behind)
{
	uint32_t copy = copied_to(insn, held);

	*behind = held | copy;
	for (uint8_t reg = 0; reg < 16 && !copy; reg++) {
		enum effect effect = held & 1u << reg ? effect_on(insn, reg) : NONE;

		if (effect == READS)
			return false;
		if (effect == FILLS)
			*behind &= ~(1u << reg);
	}
	if (is_call(insn))
		*behind &= ~(uint32_t)SCRATCH;
	return true;
}

// Returns whether the instruction jumps through a register that may hold the value.
static bool jumps_by(const struct sosc_insn *insn, uint32_t held)
{
	return insn->mod == 3 && held & 1u << insn->rm;
}

enum { FUNCTION_MAX = 65536, PENDING_MAX = 512 };

static uint16_t seen[FUNCTION_MAX]; // registers that may hold the value at each address

/** The session is over: give back the memory of the scratch table. */
void sosc_loads_rest(void)
{
	sosc_memory_clear(seen, sizeof(seen));
}

// Follows the value of @reg, and its copies in other registers, on every path from the instruction
// after the load. Returns whether it is only used for calls.
static bool only_called_from(uint64_t from, const struct sosc_frame *function, uint8_t reg)
{
	static struct {
		uint64_t at;
		uint32_t held;
	} pending[PENDING_MAX];
	uint64_t start = function->start, end = function->end;
	uint32_t count = 1;

	memset(seen, 0, (end - start) * sizeof(seen[0]));
	pending[0].at = from;
	pending[0].held = 1u << reg;
	while (count) {
		uint64_t at = pending[--count].at;
		uint32_t held = pending[count].held;
		bool falls = true;

		while (falls && held) {
			struct sosc_insn insn;
			uint64_t target, pad = 0;
			uint32_t behind;

			if (at < start || at >= end)
				// a tail call, or a cold part of the function elsewhere
				return false;
			if (!(held & ~(uint32_t)seen[at - start]))
				break;
			held |= seen[at - start];
			seen[at - start] = (uint16_t)held;
			if (!sosc_decode((const uint8_t *)at, end - at, &insn) ||
			    !held_behind(&insn, held, &behind))
				return false;
			target = jump_target(&insn, at, &falls);
			if (insn.map == 0 && insn.opcode == 0xff && !falls &&
			    !jumps_by(&insn, held))
				return false; // a jump table
			held = behind;
			at += insn.length;
			if (is_call(&insn) && !sosc_landing_pad(function, at, &pad))
				return false;
			if (count + 2 > PENDING_MAX)
				return false;
			if (target) {
				pending[count].at = target;
				pending[count++].held = held;
			}
			if (pad) {
				pending[count].at = pad;
				pending[count++].held = held;
			}
		}
	}
	return true;
}

// Returns the end of the instruction whose displacement is at @displacement. Returns 0 if there is
// no such instruction: the bytes then belong to other instructions.
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

/** Return whether an instruction begins at @addr, according to the table of functions. */
bool sosc_is_instruction(const struct sosc_loaded *image, uint64_t addr)
{
	struct sosc_frame function;
	struct sosc_insn insn;
	uint64_t at;

	if (!sosc_frame_at(image, addr, &function))
		return false;
	for (at = function.start; at < addr; at += insn.length)
		if (!sosc_decode((const uint8_t *)at, function.end - at, &insn))
			return false;
	return at == addr;
}

/**
 * Return whether the four bytes at @displacement are the displacement of an instruction. If the
 * image has no table of its functions, that cannot be checked, and the answer is true.
 */
bool sosc_is_displacement(const struct sosc_loaded *image, uint64_t displacement)
{
	struct sosc_frame function;

	if (!sosc_has_frames(image))
		return true;
	return sosc_frame_at(image, displacement, &function) &&
	       load_end(function.start, function.end, displacement);
}

/**
 * Return whether the four bytes at @displacement belong to a `mov slot(%rip), %reg` whose register
 * is used only for calls.
 */
bool sosc_load_is_called(const struct sosc_loaded *image, uint64_t displacement)
{
	const uint8_t *modrm = (const uint8_t *)displacement - 1;
	struct sosc_frame function;
	uint64_t behind;
	uint8_t rex = modrm[-2], reg;

	if ((rex & 0xfb) != 0x48 || modrm[-1] != 0x8b || (*modrm & 0xc7) != 5)
		return false;
	reg = (uint8_t)((*modrm >> 3 & 7) | (rex & 4) << 1);
	if ((!callee_saved(reg) && !scratch(reg)) ||
	    !sosc_frame_at(image, displacement, &function) ||
	    function.end - function.start > FUNCTION_MAX)
		return false;
	behind = load_end(function.start, function.end, displacement);
	return behind && only_called_from(behind, &function, reg);
}
