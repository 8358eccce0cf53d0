// SPDX-License-Identifier: Apache-2.0
// Hooking an image, in stages. Memory that is read-only after relocation (RELRO) is writable
// meanwhile.

#include "hook/hook.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/memory.h"
#include "base/sys.h"
#include "hook/relocation.h"
#include "hook/scan.h"
#include "hook/select.h"
#include "hook/slot.h"
#include "hook/unwind.h"
#include "image/image.h"
#include "image/namespace.h"
#include "stack/walk.h"

enum { OFTEN = 16 }; // slots between two checks of the clock

// Calls @hook for each of @count items, starting where the last turn ended. Returns whether it came
// to the end.
static bool each(struct sosc_hooking *work, uint64_t count, uint64_t until,
		 void (*hook)(struct sosc_hooking *, uint64_t))
{
	while (work->next < count) {
		hook(work, work->next++);
		if (work->next % OFTEN == 0 && sosc_is_over(until))
			return false;
	}
	work->next = 0;
	return true;
}

static bool go_on_with_methods(struct sosc_hooking *work, uint64_t until)
{
	uint64_t pages = sosc_methods_pages(work->image);

	switch (work->stage) {
	case FIND_METHODS:
		if (!each(work, pages, until, sosc_find_methods))
			return false;
		work->stage = NAME_METHODS; // fall through
	case NAME_METHODS:
		if (!each(work, pages, until, sosc_name_methods))
			return false;
		work->stage = HOOK_METHODS; // fall through
	default:
		if (sosc_methods_wait(work, until != 0))
			return false;
		sosc_select_image(work->methods.interpreter, true);
		return each(work, work->methods.count, until, sosc_hook_method);
	}
}

static bool go_on(struct sosc_hooking *work, uint64_t until)
{
	switch (work->stage) {
	case HOOK_JUMP_SLOTS:
		if (!each(work, work->image->jmprelcount, until, sosc_hook_jump_slot))
			return false;
		work->stage = FIND_DATA_SLOTS; // fall through
	case FIND_DATA_SLOTS:
		sosc_find_data_slots(work);
		work->stage = SCAN_TEXT;
		if (sosc_is_over(until))
			return false; // fall through
	case SCAN_TEXT:
		if (!sosc_scan_text(&work->scan, until))
			return false;
		work->stage = HOOK_DATA_SLOTS; // fall through
	case HOOK_DATA_SLOTS:
		if (!each(work, work->scan.count, until, sosc_hook_data_slot))
			return false;
		if (work->only_patches)
			return true;
		work->stage = CHANGE_CODE; // fall through
	case CHANGE_CODE:
		if (!sosc_instruments_code(work, until))
			return false;
		if (!sosc_methods_begin(work))
			return true;
		work->stage = work->methods.found ? FIND_METHODS : HOOK_METHODS; // fall through
	default:
		return go_on_with_methods(work, until);
	}
}

// The table of relocations was left writable if slots are lazy: see sosc_redirect_binding.
static void protect_table(const struct sosc_hooking *work)
{
	const struct sosc_loaded *image = work->image;
	uint64_t table = (uint64_t)image->jmprel;
	uint64_t end = (uint64_t)(image->jmprel + image->jmprelcount);

	if (work->lazy && !(sosc_segment_flags(image, table) & (PF_X | PF_W)))
		(void)sosc_protect(table & ~(uint64_t)(SOSC_PAGE - 1),
				   (end + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1), PROT_READ);
}

static bool open_relro(const struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	if (!image->relro_start ||
	    sosc_protect(image->relro_start, image->relro_end, PROT_READ | PROT_WRITE))
		return true;
	if (image->index != SOSC_NONE)
		images[image->index].flags |= SOSC_IMAGE_WRITE_REFUSED;
	return false;
}

static void close_relro(const struct sosc_loaded *image)
{
	if (image->relro_start)
		(void)sosc_protect(image->relro_start, image->relro_end, PROT_READ);
}

/**
 * Let unwinders in @image find the unwind rules of our trampolines. The image's slots are hooked
 * later.
 */
void sosc_image_wait(struct sosc_loaded *image)
{
	image->waits = open_relro(image);
	if (!image->waits)
		return;
	sosc_unwind_hook(image);
	close_relro(image);
}

/**
 * Hook the chosen slots of work->image. The image must be relocated, and must not be unloaded
 * meanwhile. So this runs with all threads stopped while the loader is idle (@alone), or on the
 * loading thread. Return false if the time @until has passed (see sosc_is_over): then call this
 * again.
 */
bool sosc_hook_some(struct sosc_hooking *work, uint64_t until, bool alone)
{
	struct sosc_loaded *image = work->image;
	bool done;

	if (!open_relro(image)) {
		sosc_hook_forget(work);
		return true;
	}
	work->alone = alone;
	sosc_write_often(alone);
	if (!work->only_patches)
		sosc_select_image(image, image->hooked);
	if (!image->hooked && !work->only_patches) {
		image->hooked = true;
		if (image->ns && sosc_same(image->name, "libc.so.6"))
			(void)sosc_errno_find(image);
		sosc_unwind_hook(image);
		sosc_stacks_see(image);
		sosc_slots_begin(image);
	}
	done = go_on(work, until);
	sosc_slots_end();
	sosc_write_often(false);
	protect_table(work);
	close_relro(image);
	if (done)
		sosc_hook_forget(work);
	return done;
}

/** Free what the work on an image has taken. */
void sosc_hook_forget(struct sosc_hooking *work)
{
	sosc_scan_end(&work->scan);
	sosc_scan_end(&work->silence.scan);
	sosc_methods_end(&work->methods);
	if (work->size)
		(void)sosc_sys3(SYS_MUNMAP, (long)work->scan.slots, (long)work->size, 0);
	memset(work, 0, sizeof(*work));
}

/** Do all the work of sosc_hook_some. */
void sosc_image_hook(struct sosc_loaded *image, bool alone)
{
	struct sosc_hooking work = {.image = image, .scan = {.image = image}};

	if (!image->hooked && !image->loader && image->symtab && image->strtab)
		(void)sosc_hook_some(&work, 0, alone);
}

/** Only lead slots to the patches that replace their functions. */
void sosc_image_patch(struct sosc_loaded *image)
{
	struct sosc_hooking work = {.image = image, .scan = {.image = image}, .only_patches = true};

	if (image->map && !image->loader && image->symtab && image->strtab)
		(void)sosc_hook_some(&work, 0, false);
}
