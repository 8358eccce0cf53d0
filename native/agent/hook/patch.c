// SPDX-License-Identifier: Apache-2.0
// Functions that stand in the place of others (soscope patch, soscope run). Their slots hold
// the function's own address: a call costs nothing more, and nobody has to live for it.
// Their libraries are load.c's business.

#include "hook/patch.h"
#include "hook/select.h"
#include "hook/slot.h"
#include "image/changes.h"
#include "image/image.h"

static uint64_t memory[SOSC_PATCHES_SIZE / sizeof(uint64_t)];

/** The table; its size is 0 where there is none. */
struct sosc_patches *sosc_patches(void)
{
	return (struct sosc_patches *)memory;
}

/** What lies at an offset of the table. */
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

/** A session begins: take over what it brings. What stands already stays without that. */
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

/** Whether any function stands in another's place. */
bool sosc_patches_stand(void)
{
	for (uint32_t i = 0; i < sosc_patches()->count; i++)
		if (sosc_patch_at(i)->function)
			return true;
	return false;
}

/** Whether libraries are still to be loaded. */
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

/** Whether an image was loaded for a patch. */
bool sosc_patch_is_library(const struct sosc_loaded *image)
{
	for (uint32_t i = 0; image && i < sosc_patches()->libraries; i++)
		if (sosc_patch_library_at(i)->handle == (uint64_t)image->map)
			return true;
	return false;
}

/** Whether the slot is one that a patch is about. */
bool sosc_patch_is_about(const struct sosc_candidate *at)
{
	return find_patch(at) != SOSC_NONE;
}

// An earlier patch may have led the slot away, by other callers than the one in its place: that
// library may be closed soon.
static enum sosc_patched give_back(struct sosc_candidate *at)
{
	if (sosc_patch_is_library(at->callee) && sosc_change_revert(at->addr)) {
		at->value = *(const uint64_t *)at->addr;
		at->callee = sosc_image_of(at->value);
	}
	return SOSC_NOT_PATCHED;
}

/**
 * Lead the slot to the function that stands in the place of its own, if there is one.
 * @only_called: nobody but calls goes through it.
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
