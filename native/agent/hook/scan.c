// SPDX-License-Identifier: Apache-2.0
// How an image's code uses its GLOB_DAT slots. A function that is only called through the slot can
// be hooked there. If its address is loaded, the slot must keep it, and the function is hooked in
// the linker's .plt.got stub if it has one. code_<processor>_scan.c reads the code; this file keeps
// what it finds.

#include "hook/scan.h"
#include "base/sys.h"
#include "image/image.h"

enum { SITES_FIRST = 8192 };

/** Keep the place of a use that can be re-aimed. */
void sosc_scan_keep(struct sosc_scan *scan, struct sosc_scanned *slot, uint64_t displacement)
{
	uint64_t room = scan->room ? scan->room * 2ul : SITES_FIRST;
	void *map;

	if (scan->used + 1 >= scan->room && !scan->sites_lost) {
		uint64_t size = room * sizeof(*scan->sites);

		if (scan->room)
			map = (void *)sosc_sys6(SYS_MREMAP, (long)scan->sites, (long)size / 2,
						(long)size, MREMAP_MAYMOVE, 0, 0);
		else
			map = sosc_mmap(NULL, size, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		scan->sites_lost = sosc_mmap_failed(map);
		if (!scan->sites_lost) {
			scan->sites = map;
			scan->room = (uint32_t)room;
		}
	}
	if (scan->sites_lost || displacement - scan->image->start > UINT32_MAX) {
		scan->sites_lost = true;
		return;
	}
	scan->sites[++scan->used].offset = (uint32_t)(displacement - scan->image->start);
	scan->sites[scan->used].next = slot->site;
	slot->site = scan->used;
}

static void sift(struct sosc_scanned *slots, uint32_t root, uint32_t count)
{
	for (;;) {
		uint32_t child = root * 2 + 1;
		struct sosc_scanned swap;

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

/** Sort scan->slots by address, as sosc_scan_text requires. */
void sosc_scan_sort(struct sosc_scan *scan)
{
	struct sosc_scanned *slots = scan->slots;
	uint32_t count = scan->count;

	if (!count)
		return;
	for (uint32_t i = count / 2; i-- > 0;)
		sift(slots, i, count);
	for (uint32_t i = count; i-- > 1;) {
		struct sosc_scanned swap = slots[0];

		slots[0] = slots[i];
		slots[i] = swap;
		sift(slots, 0, i);
	}
	scan->low = slots[0].addr;
	scan->span = slots[count - 1].addr - scan->low;
}

/**
 * Find out how the code of scan->image uses scan->slots. Return false if the time @until has passed
 * (see sosc_is_over): then call this again. The results have to be freed by sosc_scan_end.
 */
bool sosc_scan_text(struct sosc_scan *scan, uint64_t until)
{
	const struct sosc_loaded *image = scan->image;

	for (; scan->count && scan->segment < image->phnum; scan->segment++) {
		const Elf64_Phdr *phdr = &image->phdr[scan->segment];
		uint64_t start = image->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_X && phdr->p_flags & PF_R &&
		    !sosc_scan_range(scan, start, start + phdr->p_filesz, until))
			return false;
	}
	return true;
}

void sosc_scan_end(struct sosc_scan *scan)
{
	if (scan->room)
		(void)sosc_sys3(SYS_MUNMAP, (long)scan->sites,
				(long)(scan->room * sizeof(*scan->sites)), 0);
	scan->room = scan->used = 0;
}

/**
 * Re-aim to the cell at @shadow every call and jump through @slot, and every load of it that is
 * used only for calls. Return how many could be written. If others could not be written, slot->uses
 * notes that. No thread may run the image's code meanwhile, because a displacement may straddle two
 * words.
 */
uint32_t sosc_scan_sites(const struct sosc_scan *scan, struct sosc_scanned *slot, uint64_t shadow)
{
	uint32_t done = 0;

	if (scan->sites_lost)
		return 0; // some calls would bypass the hook
	for (uint32_t i = slot->site; i; i = scan->sites[i].next) {
		uint64_t at = scan->image->start + scan->sites[i].offset;

		if (sosc_is_use(scan->image, at) && sosc_reaim(scan->image, at, shadow))
			done++;
		else
			slot->uses |= SOSC_USE_LEFT;
	}
	return done;
}
