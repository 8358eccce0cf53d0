// SPDX-License-Identifier: Apache-2.0
// The words of the target that the agent has changed, so that whoever takes it out
// can put them back byte for byte: from outside, whether or not the soscope that
// put it in is still there. Written where slots are: at start, or by the thread
// that holds the loader's lock.

#include "changes.h"
#include "image.h"

struct sosc_change sosc_changes[SOSC_MAX_CHANGES];

// Those of images that are gone make room.
static void squeeze(void)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < sosc_inside.change_count; i++)
		if (sosc_changes[i].addr)
			sosc_changes[kept++] = sosc_changes[i];
	sosc_inside.change_count = kept;
}

/**
 * Take note that @size bytes at @addr, of @image or of nobody's (NULL), are about
 * to change; false: there is no room, leave them alone.
 */
bool sosc_change_note(const struct sosc_loaded *image, uint64_t addr, uint64_t before,
		      uint64_t after, uint32_t size)
{
	struct sosc_change *change;

	if (before == after)
		return true;
	if (sosc_inside.change_count == SOSC_MAX_CHANGES)
		squeeze();
	if (sosc_inside.change_count == SOSC_MAX_CHANGES)
		return false;
	change = &sosc_changes[sosc_inside.change_count];
	change->addr = addr;
	change->before = before;
	change->after = after;
	change->size = size;
	change->image = image ? (uint32_t)(image - sosc_loaded) : SOSC_NONE;
	__atomic_store_n(&sosc_inside.change_count, sosc_inside.change_count + 1, __ATOMIC_RELEASE);
	return true;
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
