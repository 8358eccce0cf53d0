// SPDX-License-Identifier: Apache-2.0
// Shadow cells: words near an image's text through which re-aimed .plt.got stubs and call sites go,
// so that the GLOB_DAT slot itself keeps its value, and with it the function's address.

#include "hook/shadow.h"
#include "base/sys.h"
#include "image/image.h"

enum {
	PAGES_MAX = 4096,
	CELLS = SOSC_PAGE / 16,
	STEP = 65536,
	STEPS = 16384, // half of the reach of a displacement
};

static struct shadow_page {
	uint64_t cell[CELLS];
	uint64_t slot[CELLS]; // addr of the GLOB_DAT slot that owns the cell, 0 = free
} *pages[PAGES_MAX];
static uint32_t page_count;

static bool in_reach(uint64_t from, uint64_t to)
{
	int64_t distance = (int64_t)(to - from);

	return distance == (int32_t)distance;
}

/** Return whether all of an image's code can reach [@start, @start + @size) by a displacement. */
bool sosc_is_near(const struct sosc_loaded *image, uint64_t start, uint64_t size)
{
	return in_reach(image->end, start) && in_reach(image->start, start + size);
}

static bool map_at(uint64_t at, uint64_t size)
{
	void *map = sosc_mmap((void *)at, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if ((uint64_t)map == at)
		return true;
	if (!sosc_mmap_failed(map)) // an old kernel takes the address for a hint
		(void)sosc_sys3(SYS_MUNMAP, (long)map, (long)size, 0);
	return false;
}

/**
 * Map @size bytes, at most STEP, as near to the image as possible. Return 0 if there is no room.
 * Below a library that is loaded later, the agent's own memory may fill everything in reach.
 */
uint64_t sosc_map_near(const struct sosc_loaded *image, uint64_t size)
{
	uint64_t below = image->start;
	uint64_t above = (image->end + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);

	for (int i = 0; i < STEPS; i++) {
		below -= STEP;
		above += STEP;
		if (map_at(below, size))
			return below;
		if (map_at(above, size))
			return above;
	}
	return 0;
}

static struct shadow_page *new_page(const struct sosc_loaded *image)
{
	uint64_t page = page_count < PAGES_MAX ? sosc_map_near(image, SOSC_PAGE) : 0;

	if (!page)
		return NULL;
	pages[page_count] = (void *)page;
	return pages[page_count++];
}

/**
 * Return the address of the shadow cell of the GLOB_DAT slot at @slot, within reach of the image's
 * displacements. Return 0 if there is no room near the image.
 */
uint64_t sosc_shadow_cell(const struct sosc_loaded *image, uint64_t slot)
{
	struct shadow_page *page;

	for (uint32_t p = 0; p < page_count; p++) {
		page = pages[p];
		if (!sosc_is_near(image, (uint64_t)page, SOSC_PAGE))
			continue;
		for (int i = 0; i < CELLS; i++) {
			if (!page->slot[i])
				page->slot[i] = slot;
			if (page->slot[i] == slot)
				return (uint64_t)&page->cell[i];
		}
	}
	page = new_page(image);
	if (!page)
		return 0;
	page->slot[0] = slot;
	return (uint64_t)&page->cell[0];
}

/** No code goes through shadow cells any more: unmap their pages. */
void sosc_shadow_rest(void)
{
	while (page_count) {
		page_count--;
		(void)sosc_sys3(SYS_MUNMAP, (long)pages[page_count], SOSC_PAGE, 0);
	}
}
