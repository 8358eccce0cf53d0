// SPDX-License-Identifier: Apache-2.0
// How an image's code uses its GLOB_DAT slots. A function whose address is only
// called through the slot can be hooked there; one whose address is loaded must
// keep it, and is hooked in the linker's .plt.got stub if it has one.
//
// Every position of the text is taken for the 32-bit displacement of a
// rip-relative operand. A chance match looks like a load and costs a hook, never
// a pointer's identity.

#include "agent.h"

enum { STUB_OPCODE = 0x25ff, CALL_OPCODE = 0x15ff };

// .plt.got: GNU ld: ff 25 rel32 66 90; with IBT endbr64 before and 66 0f 1f 44
// 00 00 after; mold: endbr64 before and cc after.
static uint64_t stub_at(uint64_t jmp)
{
	const uint8_t *after = (const uint8_t *)jmp + 6;
	uint32_t before;

	if (jmp % 8 == 0 && after[0] == 0x66 && after[1] == 0x90)
		return jmp;
	memcpy(&before, (const void *)(jmp - 4), 4);
	if ((jmp - 4) % 16 == 0 && before == 0xfa1e0ff3 &&
	    ((after[0] == 0x66 && after[1] == 0x0f && after[2] == 0x1f) ||
	     (after[0] == 0xcc && after[1] == 0xcc)))
		return jmp;
	return 0;
}

static void found(const struct sosc_loaded *image, struct sosc_scan *slot, uint64_t displacement)
{
	uint16_t opcode;

	memcpy(&opcode, (const void *)(displacement - 2), 2);
	if (opcode == STUB_OPCODE && stub_at(displacement - 2)) {
		slot->stub = displacement - 2;
		slot->uses |= SOSC_USE_STUB;
	} else if (opcode == STUB_OPCODE) {
		slot->uses |= SOSC_USE_JUMP;
	} else if (opcode == CALL_OPCODE) {
		slot->uses |= SOSC_USE_CALL;
	} else if (sosc_load_is_called(image, displacement)) {
		slot->uses |= SOSC_USE_CALLED_LOAD;
	} else {
		slot->uses |= SOSC_USE_LOAD;
	}
}

static void scan_range(const struct sosc_loaded *image, uint64_t start, uint64_t end,
		       struct sosc_scan *slots, uint32_t count)
{
	uint64_t low = slots[0].addr, span = slots[count - 1].addr - low;

	for (uint64_t at = start; at + 4 <= end; at++) {
		int32_t displacement;
		uint64_t target;
		uint32_t left = 0, right = count;

		__builtin_memcpy(&displacement, (const void *)at, 4);
		target = at + 4 + (uint64_t)(int64_t)displacement;
		if (target - low > span || target & 7)
			continue;
		while (left < right) {
			uint32_t middle = (left + right) / 2;

			if (slots[middle].addr < target)
				left = middle + 1;
			else
				right = middle;
		}
		if (left < count && slots[left].addr == target && at >= start + 6)
			found(image, &slots[left], at);
	}
}

static void sift(struct sosc_scan *slots, uint32_t root, uint32_t count)
{
	for (;;) {
		uint32_t child = root * 2 + 1;
		struct sosc_scan swap;

		if (child >= count)
			return;
		if (child + 1 < count && slots[child].addr < slots[child + 1].addr)
			child++;
		if (slots[root].addr >= slots[child].addr)
			return;
		swap = slots[root];
		slots[root] = slots[child];
		slots[child] = swap;
		root = child;
	}
}

/** Fill in uses and stub of @slots; sorts them by address. */
void sosc_scan_text(const struct sosc_loaded *image, struct sosc_scan *slots, uint32_t count)
{
	if (!count)
		return;
	for (uint32_t i = count / 2; i-- > 0;)
		sift(slots, i, count);
	for (uint32_t i = count; i-- > 1;) {
		struct sosc_scan swap = slots[0];

		slots[0] = slots[i];
		slots[i] = swap;
		sift(slots, 0, i);
	}
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t start = image->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_X)
			scan_range(image, start, start + phdr->p_filesz, slots, count);
	}
}

static bool is_call_through(const struct sosc_loaded *image, uint64_t displacement)
{
	const uint8_t *code = (const uint8_t *)displacement;

	return (code[-2] == 0xff && (code[-1] == 0x15 || code[-1] == 0x25)) ||
	       sosc_load_is_called(image, displacement);
}

/**
 * Re-aim every call and jump through the slot at @addr, and every load of it
 * that is only called, to the cell at @shadow; how many there were and could be
 * written. Nobody may be running the image's code: a displacement may straddle
 * a word.
 */
uint32_t sosc_scan_sites(const struct sosc_loaded *image, uint64_t addr, uint64_t shadow)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t start = image->bias + phdr->p_vaddr, end = start + phdr->p_filesz;

		if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X))
			continue;
		for (uint64_t at = start + 3; at + 4 <= end; at++) {
			int64_t wide = (int64_t)(shadow - (at + 4));
			int32_t old, fresh = (int32_t)wide;

			__builtin_memcpy(&old, (const void *)at, sizeof(old));
			if (at + 4 + (uint64_t)(int64_t)old == addr && fresh == wide &&
			    is_call_through(image, at) &&
			    sosc_write(at, &fresh, sizeof(fresh), true))
				done++;
		}
	}
	return done;
}
