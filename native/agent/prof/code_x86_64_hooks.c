// SPDX-License-Identifier: Apache-2.0
// What the code around a hook tells about the stack frame of its function, for x86-64.

#include "image/image.h"
#include "prof/prof.h"
#include "prof/silence.h"

enum { PROLOGUE = 96 }; // bytes in front of mcount that may belong to the function's prologue

// Nested functions of gcc: the static chain lies between __fentry__'s return address and the
// function's ("push %r10; call", possibly with other instructions in between). The code behind the
// call pops it, and no other function begins with "pop %r10".
static bool is_nested(uint64_t site)
{
	const uint8_t *code = (const void *)site;

	// the first byte is a prefix, so there is a second one
	return code[0] == 0x41 && code[1] == 0x5a;
}

/** Return the address of the return address of the function whose hook returns to @site. */
uint64_t *sosc_prof_return_slot(uint32_t hook, uint64_t site, uint64_t *first)
{
	return hook == SOSC_PROF_FENTRY && is_nested(site) ? first + 1 : first;
}

// Returns whether the processor keeps a shadow stack of return addresses, which only calls can
// write. Without a shadow stack the instruction has no effect.
static bool has_shadow_stack(void)
{
	uint64_t top = 0;

	__asm__ volatile("rdsspq %0" : "+r"(top));
	return top;
}

/**
 * Return whether the function's return cannot be observed. With a shadow stack its return address
 * must not be changed. And in a function that aligns its frame ("lea 8(%rsp),%r10; and $-32,%rsp;
 * push -8(%r10)"), the apparent return address is a copy: the function returns by the original
 * above it. If other code looks like that, its function is not timed, but nothing worse happens.
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

		// via r10, or r13 in a nested function
		if (at[0] == 0x41 && at[1] == 0xff && (at[2] == 0x72 || at[2] == 0x75) &&
		    at[3] == 0xf8)
			return true;
	}
	return false;
}

enum { ENDBR64 = 0xfa1e0ff3 };

// Returns whether the @size bytes in front of @code are @bytes.
static bool ends_with(const uint8_t *code, const uint8_t *bytes, uint32_t size)
{
	return !memcmp(code - size, bytes, size);
}

/**
 * Return the start of the linker's stub whose jump has its displacement at @displacement, or 0 if
 * the displacement belongs to another instruction. In front of the jump there may be an endbr64, a
 * bnd prefix, and in mold's stubs the index for lazy binding ("mov $index, %r11d").
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
 * Return the instruction that may replace a call with its displacement at @displacement: a call
 * through a slot or, with @to_code, a direct call. The caller has to make sure that an instruction
 * begins there.
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
