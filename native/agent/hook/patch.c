// SPDX-License-Identifier: Apache-2.0
// Functions that replace others (soscope patch). Slots hold the address of the
// replacement itself, so a call costs nothing more, and soscope need not keep running. load.c loads
// the libraries.

#include "hook/patch.h"
#include "hook/select.h"
#include "hook/slot.h"
#include "image/changes.h"
#include "image/image.h"

static uint64_t memory[SOSC_PATCHES_SIZE / sizeof(uint64_t)];

/** Return the table. Its size is 0 if there is none. */
struct sosc_patches *sosc_patches(void)
{
	return (struct sosc_patches *)memory;
}

/** Return the text at an offset in the table. */
const char *sosc_patches_text(uint32_t offset)
{
	return (const char *)memory + offset;
}

struct sosc_patch *sosc_patch_at(uint32_t index)
{
	return (struct sosc_patch *)(sosc_patches() + 1) + index;
}

struct sosc_patch_library *sosc_patch_library_at(uint32_t index)
{
	const char *first = sosc_patches_text(sosc_patches()->first_library);

	return (struct sosc_patch_library *)first + index;
}

/** A session begins: take over the table that it brings. Without one, the patches in force stay. */
void sosc_patches_start(void)
{
	const struct sosc_patches *brought = sosc_section(SOSC_SEC_PATCHES);
	uint64_t size = sosc_session->section[SOSC_SEC_PATCHES].size;

	sosc_inside.patches = (uint64_t)memory;
	if (size >= sizeof(*brought) && brought->size <= size && size <= sizeof(memory))
		memcpy(memory, brought, size);
	for (uint32_t i = 0; i < sosc_patches()->count; i++)
		sosc_patch_at(i)->slots = sosc_patch_at(i)->left = 0;
}

/** Return whether any patch is in force. */
bool sosc_patches_stand(void)
{
	for (uint32_t i = 0; i < sosc_patches()->count; i++)
		if (sosc_patch_at(i)->function)
			return true;
	return false;
}

/** Return whether libraries have yet to be loaded. */
bool sosc_patches_wait(void)
{
	return sosc_patches()->state == SOSC_PATCHES_WAITING;
}

static bool is_from(const struct sosc_patch *patch, const struct sosc_loaded *caller)
{
	const struct sosc_patch_from *from = (const void *)sosc_patches_text(patch->from);

	for (uint32_t i = 0; i < patch->from_count; i++, from++) {
		const struct sosc_automaton *automaton =
			(const void *)sosc_patches_text(from->automaton);

		if (from->kind == SOSC_PATCH_FROM_MAIN ?
			    caller->main :
			    sosc_automaton_matches(automaton, from->kind == SOSC_PATCH_FROM_PATH ?
								      caller->path :
								      caller->name))
			return true;
	}
	return !patch->from_count;
}

static uint32_t find_patch(const struct sosc_candidate *at)
{
	const struct sosc_loaded *caller = at->image;

	for (uint32_t i = 0; !caller->ns && i < sosc_patches()->count; i++) {
		const struct sosc_patch *patch = sosc_patch_at(i);

		if (patch->function && sosc_same(sosc_patches_text(patch->symbol), at->symbol) &&
		    !(patch->function >= caller->start && patch->function < caller->end) &&
		    is_from(patch, caller))
			return i;
	}
	return SOSC_NONE;
}

/** Return whether an image was loaded for a patch. */
bool sosc_patch_is_library(const struct sosc_loaded *image)
{
	for (uint32_t i = 0; image && i < sosc_patches()->libraries; i++)
		if (sosc_patch_library_at(i)->handle == (uint64_t)image->map)
			return true;
	return false;
}

/** Return whether a patch applies to the slot. */
bool sosc_patch_is_about(const struct sosc_candidate *at)
{
	return find_patch(at) != SOSC_NONE;
}

// An earlier patch, replaced by one for other callers, may have changed the slot. Restores the
// slot, because the library of that patch may be closed soon.
static enum sosc_patched give_back(struct sosc_candidate *at)
{
	if (sosc_patch_is_library(at->callee) && sosc_change_revert(at->addr)) {
		at->value = *(const uint64_t *)at->addr;
		at->callee = sosc_image_of(at->value);
	}
	return SOSC_NOT_PATCHED;
}

/**
 * Lead the slot to the patch that replaces its function, if there is one. @only_called: the slot is
 * used only for calls.
 */
enum sosc_patched sosc_patch_slot(struct sosc_candidate *at, bool only_called)
{
	uint32_t index = find_patch(at);
	struct sosc_patch *patch;

	if (index == SOSC_NONE)
		return give_back(at);
	patch = sosc_patch_at(index);
	if (at->value != patch->function &&
	    (!only_called || !sosc_change_patch(at->image, at->addr, patch->function, index))) {
		patch->left++;
		return SOSC_PATCH_LEFT;
	}
	patch->slots++;
	at->value = patch->function;
	at->lazy = BOUND;
	at->callee = sosc_image_of(patch->function);
	return SOSC_PATCHED;
}
