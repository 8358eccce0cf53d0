// SPDX-License-Identifier: Apache-2.0
// How an image's code uses its GLOB_DAT slots: the displacements of instructions that address
// memory relative to rip.
//
// Every position in the text is taken for the 32-bit displacement of a rip-relative operand. A
// chance match looks like a load. It prevents a hook, but never changes a pointer's identity.

#include "base/clock.h"
#include "base/memory.h"
#include "hook/scan.h"
#include "image/changes.h"
#include "image/image.h"
#include "image/loads.h"

enum { STUB_OPCODE = 0x25ff, CALL_OPCODE = 0x15ff, DIRECT_CALL = 0xe8 };

// .plt.got: GNU ld: ff 25 rel32 66 90; with IBT endbr64 before and 66 0f 1f 44
// 00 00 after; mold: endbr64 before and cc after.
static bool is_stub(uint64_t jmp, uint64_t end)
{
	uint8_t after[3] = {0};
	uint32_t before;

	if (jmp + 6 + sizeof(after) <= end)
		memcpy(after, (const void *)(jmp + 6), sizeof(after));
	if (jmp % 8 == 0 && after[0] == 0x66 && after[1] == 0x90)
		return true;
	memcpy(&before, (const void *)(jmp - 4), 4);
	return (jmp - 4) % 16 == 0 && before == 0xfa1e0ff3 &&
	       ((after[0] == 0x66 && after[1] == 0x0f && after[2] == 0x1f) ||
		(after[0] == 0xcc && after[1] == 0xcc));
}

enum { PIECE = 16384 };

static void found(struct sosc_scan *scan, struct sosc_scanned *slot, uint64_t displacement)
{
	uint16_t opcode;

	memcpy(&opcode, (const void *)(displacement - 2), 2);
	if (scan->of_code) {
		if (opcode >> 8 == DIRECT_CALL)
			sosc_scan_keep(scan, slot, displacement);
		return;
	}
	if (opcode == STUB_OPCODE && is_stub(displacement - 2, scan->end)) {
		slot->uses |= SOSC_USE_STUB;
	} else if (opcode == STUB_OPCODE) {
		slot->uses |= SOSC_USE_JUMP;
	} else if (opcode == CALL_OPCODE) {
		slot->uses |= SOSC_USE_CALL;
	} else if (sosc_load_is_called(scan->image, displacement)) {
		slot->uses |= SOSC_USE_CALLED_LOAD;
	} else {
		slot->uses |= SOSC_USE_LOAD;
		return;
	}
	sosc_scan_keep(scan, slot, displacement);
}

static void look_at(struct sosc_scan *scan, uint64_t at)
{
	uint32_t left = 0, right = scan->count;
	int32_t displacement;
	uint64_t target;

	__builtin_memcpy(&displacement, (const void *)at, 4);
	target = at + 4 + (uint64_t)(int64_t)displacement;
	if (target - scan->low > scan->span || target & 7)
		return;
	while (left < right) {
		uint32_t middle = (left + right) / 2;

		if (scan->slots[middle].addr < target)
			left = middle + 1;
		else
			right = middle;
	}
	if (left < scan->count && scan->slots[left].addr == target)
		found(scan, &scan->slots[left], at);
}

#define EACH_BYTE 0x0101010101010101ul
#define TOP_BITS 0x8080808080808080ul

// Returns the top bit of each byte that is zero, and possibly of others.
static inline uint64_t zeros(uint64_t bytes)
{
	return (bytes - EACH_BYTE) & ~bytes;
}

static inline uint64_t word_at(uint64_t at)
{
	uint64_t word;

	__builtin_memcpy(&word, (const void *)at, 8);
	return word;
}

static void look_if(struct sosc_scan *scan, uint64_t at, uint16_t upper)
{
	uint16_t here;

	__builtin_memcpy(&here, (const void *)(at + 2), 2);
	if (here == upper)
		look_at(scan, at);
}

// Looks at the displacements at [at, end) with this upper half, eight at a time.
static void look_for(struct sosc_scan *scan, uint64_t at, uint64_t end, uint16_t upper)
{
	const uint64_t third = (upper & 0xff) * EACH_BYTE, fourth = (upper >> 8) * EACH_BYTE;

	for (; at + 8 <= end; at += 8) {
		uint64_t hits = zeros(word_at(at + 2) ^ third) & zeros(word_at(at + 3) ^ fourth);

		for (hits &= TOP_BITS; hits; hits &= hits - 1)
			look_if(scan, at + (uint64_t)__builtin_ctzl(hits) / 8, upper);
	}
	for (; at < end; at++)
		look_if(scan, at, upper);
}

// Looks at a part of [at, last) and returns where to continue. Slots lie close together, so for
// most of the text the displacements to all of them have the same upper half. Near the place where
// it changes there are two.
static uint64_t scan_piece(struct sosc_scan *scan, uint64_t at, uint64_t last)
{
	uint64_t least = scan->low - at - 4, most = least + scan->span, next;
	uint16_t lower = (uint16_t)(least >> 16), upper = (uint16_t)(most >> 16);

	if (scan->span > UINT16_MAX) {
		next = last - at > PIECE ? at + PIECE : last;
		for (; at < next; at++)
			look_at(scan, at);
		return next;
	}
	next = at + 1 + ((lower == upper ? least : most) & 0xffff);
	if (next > last)
		next = last;
	look_for(scan, at, next, lower);
	if (upper != lower)
		look_for(scan, at, next, upper);
	return next;
}

/**
 * Search the code at [@start, @end). Return false if the time @until has passed; scan->at then has
 * the place to continue.
 */
bool sosc_scan_range(struct sosc_scan *scan, uint64_t start, uint64_t end, uint64_t until)
{
	uint64_t last = end - 3;

	scan->end = end;
	if (end < start + 10)
		return true;
	if (!scan->at)
		scan->at = start + 6;
	while (scan->at < last) {
		scan->at = scan_piece(scan, scan->at, last);
		if (sosc_is_over(until))
			return false;
	}
	scan->at = 0;
	return true;
}

/**
 * Redirect the instruction with a displacement at @displacement to the cell at @shadow. Return
 * whether that was possible.
 */
bool sosc_reaim(const struct sosc_loaded *image, uint64_t displacement, uint64_t shadow)
{
	int64_t wide = (int64_t)(shadow - (displacement + 4));
	int32_t fresh = (int32_t)wide;
	uint32_t before;

	memcpy(&before, (const void *)displacement, sizeof(before));
	return fresh == wide &&
	       sosc_change_note(image, displacement, before, (uint32_t)fresh, sizeof(before)) &&
	       (sosc_write(displacement, &fresh, sizeof(fresh), true) ||
		sosc_change_hand_over(displacement));
}

/**
 * Return whether these bytes really are part of an instruction. Loads were checked before, and the
 * linker's stubs are recognised by their shape.
 */
bool sosc_is_use(const struct sosc_loaded *image, uint64_t displacement)
{
	uint64_t end = sosc_code_readable(image, displacement + 6) ? image->end : 0;
	uint16_t opcode;

	memcpy(&opcode, (const void *)(displacement - 2), 2);
	if (opcode == STUB_OPCODE && is_stub(displacement - 2, end))
		return true;
	return sosc_is_displacement(image, displacement);
}
