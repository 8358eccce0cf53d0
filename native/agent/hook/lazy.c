// SPDX-License-Identifier: Apache-2.0
// Slots that are not bound yet: the agent chooses where the loader binds them.
//
// A lazy slot is hooked before it is bound. Its cell's original is the old value of the slot, the
// linker's own path to the resolver. The relocation that the resolver will apply is changed to name
// the cell instead of the slot. So the loader binds by its own rules, stores the address into the
// cell, and never touches the slot again. There is no moment at which a call can bypass the hook.

#include "hook/lazy.h"
#include "base/memory.h"
#include "base/sys.h"
#include "hook/slot.h"
#include "image/changes.h"
#include "image/image.h"

// Changes the relocation to the cell, so that the loader stores the function's address there.
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
			return sosc_write(field, &offset, sizeof(offset), true) ||
			       sosc_change_hand_over(field);
		if (!sosc_protect(start, end, PROT_READ | PROT_WRITE))
			return sosc_write(field, &offset, sizeof(offset), false);
	}
	// left writable: protect_table in hook.c closes it again
	*(uint64_t *)field = offset;
	return true;
}
