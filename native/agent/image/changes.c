// SPDX-License-Identifier: Apache-2.0
// The words of the target that the agent has changed, so that whoever takes it out
// can put them back byte for byte: from outside, whether or not the soscope that
// put it in is still there. Written where slots are: at start, or by the thread
// that holds the loader's lock.

#include "image/changes.h"
#include "image/image.h"

struct sosc_change sosc_changes[SOSC_MAX_CHANGES];
bool sosc_is_turn;

// Those of images that are gone make room.
static void squeeze(void)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < sosc_inside.change_count; i++)
		if (sosc_changes[i].addr)
			sosc_changes[kept++] = sosc_changes[i];
	sosc_inside.change_count = kept;
}

// Takes a change down; false: there is no room, leave the word alone.
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
 * Take note that @size bytes at @addr, of @image or of nobody's (NULL), are about
 * to change; false: there is no room, leave them alone.
 */
bool sosc_change_note(const struct sosc_loaded *image, uint64_t addr, uint64_t before,
		      uint64_t after, uint8_t size)
{
	return note(image, (struct sosc_change){
				   .addr = addr, .before = before, .after = after, .size = size});
}

/** The same of code, by all that the journal says of it but the image. */
bool sosc_change_code(const struct sosc_loaded *image, struct sosc_change change)
{
	change.flags |= SOSC_CHANGE_CODE;
	return note(image, change);
}

/**
 * The change that was noted last, of code at @addr, is one that this process may not make: soscope
 * makes it before the process goes on. Return whether soscope is there.
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

/** The same of the loader's function, which patches that stand may have left changed. */
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

/** Change an aligned word that can be written; return whether that was done. */
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

/** Give a word back that patches have changed, if it still has what they wrote. */
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

/** Another session begins, with a new list of images: whose are the changes that stand? */
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
			change->addr = 0; // its image has gone while nobody looked
	}
}

/** @image is gone, and its memory may be another's. */
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
