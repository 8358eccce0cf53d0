// SPDX-License-Identifier: Apache-2.0
// Slots that are not bound yet: telling them, and where the loader is to bind them.
//
// A lazy slot is hooked before it is bound. Its cell's original is what the slot
// held, the linker's own way into the resolver; the relocation that the resolver
// will obey is changed to name the cell instead of the slot. So the loader binds
// by its own rules, stores the address where we want it, and never touches the
// slot again: there is no moment at which a call can pass the hook.

#include "slot.h"
#include "sys.h"

// The linker's stubs may be the last bytes of their segment.
static void read_code(const struct sosc_loaded *image, uint64_t addr, uint8_t code[16])
{
	for (int i = 0; i < 16; i++)
		code[i] = sosc_addr_executable(image, addr + (uint64_t)i) ?
				  *(const uint8_t *)(addr + (uint64_t)i) :
				  0;
}

enum sosc_lazy_way sosc_lazy_way(const struct sosc_loaded *image, uint64_t value, uint64_t index)
{
	uint8_t bytes[16];
	const uint8_t *code = bytes;
	uint32_t word;

	if (!image->pltgot || !image->pltgot[2] || !sosc_addr_executable(image, value))
		return BOUND;
	read_code(image, value, bytes);
	memcpy(&word, code, 4);
	if (word == 0xfa1e0ff3) // endbr64
		code += 4;
	memcpy(&word, code + 1, 4);
	if (code[0] == 0x68 && word == index) // push $index
		return LAZY_PUSH;
	for (int i = 0; i < 4; i++) { // PLT0: push GOT[1](%rip)
		uint64_t next = value + (uint64_t)(code - bytes) + (uint64_t)i + 6;

		memcpy(&word, code + i + 2, 4);
		if (code[i] == 0xff && code[i + 1] == 0x35 &&
		    next + (uint64_t)(int64_t)(int32_t)word == (uint64_t)&image->pltgot[1])
			return LAZY_REGISTER;
	}
	return BOUND;
}

int sosc_segment_flags(const struct sosc_loaded *image, uint64_t addr)
{
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t start = image->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && addr >= start && addr < start + phdr->p_memsz)
			return (int)phdr->p_flags;
	}
	return 0;
}

// Points the relocation at the cell, so that the loader binds there.
bool sosc_redirect_binding(const struct sosc_candidate *at, uint64_t target)
{
	uint64_t offset = target - at->image->bias;
	uint64_t field = (uint64_t)&at->rela->r_offset;
	int flags = sosc_segment_flags(at->image, field);

	if (!flags || !sosc_change_note(at->image, field, at->rela->r_offset, offset, 8))
		return false;
	if (flags & PF_X || !(flags & PF_W)) {
		uint64_t start = field & ~(uint64_t)(SOSC_PAGE - 1);
		uint64_t end = (field + 8 + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);

		if (flags & PF_X)
			return sosc_write(field, &offset, sizeof(offset), true);
		if (!sosc_protect(start, end, PROT_READ | PROT_WRITE))
			return sosc_write(field, &offset, sizeof(offset), false);
	}
	// left writable: hook_jump_slots protects the table when it is done
	*(uint64_t *)field = offset;
	return true;
}
