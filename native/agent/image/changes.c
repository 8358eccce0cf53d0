// SPDX-License-Identifier: Apache-2.0
// The journal of the words of the target that the agent has changed. With it they can be restored
// byte for byte from outside, even if the soscope that put the agent in has ended. It is written by
// the code that hooks slots: at the start, or by the thread that holds the loader's lock.

#include "image/changes.h"
#include "image/image.h"

struct sosc_change sosc_changes[SOSC_MAX_CHANGES];
bool sosc_is_turn;

// Removes the entries of unloaded images to make room.
static void squeeze(void)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < sosc_inside.change_count; i++)
		if (sosc_changes[i].addr)
			sosc_changes[kept++] = sosc_changes[i];
	sosc_inside.change_count = kept;
}

// Adds a change to the journal. Returns false if there is no room: then the word must not be
// changed.
static bool note(const struct sosc_loaded *image, struct sosc_change change)
{
	if (change.before == change.after)
		return true;
	if (sosc_inside.change_count == SOSC_MAX_CHANGES)
		squeeze();
	if (sosc_inside.change_count == SOSC_MAX_CHANGES)
		return false;
	change.image = image ? (uint32_t)(image - sosc_loaded) : SOSC_NONE;
	sosc_changes[sosc_inside.change_count] = change;
	__atomic_store_n(&sosc_inside.change_count, sosc_inside.change_count + 1, __ATOMIC_RELEASE);
	return true;
}

/**
 * Note in the journal that @size bytes at @addr are about to change. They belong to @image, or to
 * no image (NULL). Return false if there is no room: then they must not be changed.
 */
bool sosc_change_note(const struct sosc_loaded *image, uint64_t addr, uint64_t before,
		      uint64_t after, uint8_t size)
{
	return note(image, (struct sosc_change){
				   .addr = addr, .before = before, .after = after, .size = size});
}

/** The same for code. @change has all fields but the image. */
bool sosc_change_code(const struct sosc_loaded *image, struct sosc_change change)
{
	change.flags |= SOSC_CHANGE_CODE;
	return note(image, change);
}

/**
 * The latest change in the journal is code at @addr that this process may not write. Leave it to
 * soscope, which writes it before the process goes on. Return false if soscope is not there to do
 * so.
 */
bool sosc_change_hand_over(uint64_t addr)
{
	struct sosc_change *last;

	if (!sosc_is_turn || !sosc_inside.change_count)
		return false;
	last = &sosc_changes[sosc_inside.change_count - 1];
	if (last->addr != addr)
		return false;
	last->flags |= SOSC_CHANGE_CODE;
	return true;
}

/** The same for the loader's function, which patches that are in force may have left changed. */
bool sosc_change_loader(uint64_t addr, uint64_t before, uint64_t after)
{
	for (uint64_t i = 0; i < sosc_inside.change_count; i++)
		if (sosc_changes[i].flags & SOSC_CHANGE_LOADER && sosc_changes[i].addr == addr &&
		    sosc_changes[i].after == after)
			return true;
	return note(NULL, (struct sosc_change){.addr = addr,
					       .before = before,
					       .after = after,
					       .size = 8,
					       .flags = SOSC_CHANGE_LOADER});
}

/**
 * Change an aligned word in writable memory, with an entry in the journal. Return whether that was
 * done.
 */
bool sosc_change_word(const struct sosc_loaded *image, uint64_t addr, uint64_t value)
{
	uint64_t *word = (uint64_t *)addr;

	if (!sosc_change_note(image, addr, *word, value, sizeof(*word)))
		return false;
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return true;
}

/** The same for a patch, whose change outlives the session. */
bool sosc_change_patch(const struct sosc_loaded *image, uint64_t addr, uint64_t value,
		       uint32_t patch)
{
	uint64_t *word = (uint64_t *)addr;

	if (!note(image, (struct sosc_change){.addr = addr,
					      .before = *word,
					      .after = value,
					      .size = sizeof(*word),
					      .flags = SOSC_CHANGE_STANDS,
					      .patch = (uint16_t)patch}))
		return false;
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return true;
}

/** Restore a word that patches have changed, if it still holds what they wrote. */
bool sosc_change_revert(uint64_t addr)
{
	uint64_t *word = (uint64_t *)addr;
	bool done = false;

	for (uint64_t i = sosc_inside.change_count; i--;) { // newest first
		struct sosc_change *change = &sosc_changes[i];

		if (change->addr != addr || !(change->flags & SOSC_CHANGE_STANDS) ||
		    change->after != *word)
			continue;
		__atomic_store_n(word, change->before, __ATOMIC_RELEASE);
		change->addr = 0;
		done = true;
	}
	return done;
}

/**
 * Another session begins, with a new list of images: find the image of each change made by a patch.
 */
void sosc_changes_again(void)
{
	for (uint64_t i = 0; i < sosc_inside.change_count; i++) {
		struct sosc_change *change = &sosc_changes[i];
		const struct sosc_loaded *image;

		if (!(change->flags & SOSC_CHANGE_STANDS) || !change->addr)
			continue;
		image = sosc_image_of(change->addr);
		if (image)
			change->image = (uint32_t)(image - sosc_loaded);
		else
			change->addr = 0; // its image was unloaded between the sessions
	}
}

/** @image was unloaded, and its memory may belong to another image. */
void sosc_changes_forget(const struct sosc_loaded *image)
{
	uint32_t place = (uint32_t)(image - sosc_loaded);
	uint64_t count = sosc_inside.change_count;

	for (uint64_t i = 0; i < count; i++)
		if (sosc_changes[i].image == place)
			sosc_changes[i].addr = 0;
	while (count && !sosc_changes[count - 1].addr)
		count--;
	sosc_inside.change_count = count;
}
