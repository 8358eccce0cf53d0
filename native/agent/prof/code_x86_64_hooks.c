// SPDX-License-Identifier: Apache-2.0
// What the code around a hook says of the frame of its function, for x86-64.

#include "image/image.h"
#include "prof/prof.h"
#include "prof/silence.h"

enum { PROLOGUE = 96 }; // bytes of one, in front of mcount

// gcc's nested functions: the static chain lies between __fentry__ and the return address ("push
// %r10; call", with anything in between). What follows the call takes it back, and no other
// function begins by "pop %r10".
static bool is_nested(uint64_t site)
{
	const uint8_t *code = (const void *)site;

	return code[0] == 0x41 && code[1] == 0x5a; // the first is a prefix: there is a second
}

/** Where the return address lies of the function whose hook returns to @site. */
uint64_t *sosc_prof_return_slot(uint32_t hook, uint64_t site, uint64_t *first)
{
	return hook == SOSC_PROF_FENTRY && is_nested(site) ? first + 1 : first;
}

// Whether the processor keeps return addresses of its own, which only calls put there. Where it
// does not, the instruction does nothing.
static bool has_shadow_stack(void)
{
	uint64_t top = 0;

	__asm__ volatile("rdsspq %0" : "+r"(top));
	return top;
}

/**
 * Whether a function's return must not lead elsewhere, or would not, as what looks like the return
 * address is a copy: a function whose frame is aligned anew
 * ("lea 8(%rsp),%r10; and $-32,%rsp; push -8(%r10)") returns by the one above that. Other code
 * that looks so costs a function its times, and no more.
 */
bool sosc_prof_is_unseen(uint32_t hook, uint64_t site)
{
	const struct sosc_loaded *image = sosc_image_of(site);
	const uint8_t *code = (const void *)site;

	if (hook == SOSC_PROF_BARE)
		return true;
	if (hook != SOSC_PROF_CYG && has_shadow_stack()) {
		__atomic_fetch_or(&sosc_prof->flags, (uint32_t)SOSC_PROF_SHADOW_STACK,
				  __ATOMIC_RELAXED);
		return true;
	}
	if (hook != SOSC_PROF_MCOUNT)
		return false;
	for (uint64_t i = 4; i < PROLOGUE && image && sosc_code_readable(image, site - i); i++) {
		const uint8_t *at = code - i;

		// of r10, or of r13 in a nested function
		if (at[0] == 0x41 && at[1] == 0xff && (at[2] == 0x72 || at[2] == 0x75) &&
		    at[3] == 0xf8)
			return true;
	}
	return false;
}

enum { ENDBR64 = 0xfa1e0ff3 };

// The bytes in front of @code, as far as they belong to it.
static bool ends_with(const uint8_t *code, const uint8_t *bytes, uint32_t size)
{
	return !memcmp(code - size, bytes, size);
}

/**
 * Where calls of the linker's stub begin whose jump has the displacement at @displacement; 0: another
 * instruction has it. There may be a landing mark, a prefix (bnd), and what mold's stubs say to
 * the one that binds ("mov $index, %r11d").
 */
uint64_t sosc_prof_stub_start(const struct sosc_loaded *image, uint64_t displacement)
{
	enum { JUMP = 0x25ff, BND = 0xf2, INDEX = 0xbb41, ALIGNED = 8, FRONT = 10 };
	const uint8_t *code = (const uint8_t *)displacement - 2;
	const uint32_t mark = ENDBR64;
	uint16_t opcode, index;

	memcpy(&opcode, code, sizeof(opcode));
	if (opcode != JUMP || !sosc_code_readable(image, (uint64_t)code - FRONT))
		return 0;
	memcpy(&index, code - 6, sizeof(index));
	if (code[-1] == BND)
		code--;
	else if (index == INDEX)
		code -= 6;
	if (ends_with(code, (const uint8_t *)&mark, sizeof(mark)))
		code -= sizeof(mark);
	return (uint64_t)code % ALIGNED ? 0 : (uint64_t)code;
}

/**
 * What may stand in the place of a call whose displacement is at @displacement: of a slot that it
 * calls through, or @to_code. Whether it is an instruction is another question.
 */
struct sosc_no_call sosc_prof_no_call(uint64_t displacement, bool to_code)
{
	static const uint8_t five[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
	static const uint8_t six[] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};
	const uint8_t *code = (const uint8_t *)displacement;

	if (to_code && code[-1] == 0xe8)
		return (struct sosc_no_call){displacement - 1, sizeof(five), five};
	if (!to_code && code[-2] == 0xff && code[-1] == 0x15)
		return (struct sosc_no_call){displacement - 2, sizeof(six), six};
	return (struct sosc_no_call){0};
}
