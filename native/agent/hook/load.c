// SPDX-License-Identifier: Apache-2.0
// The libraries of patches. The process's own loader loads and closes them. It is called in one of
// two places: by soscope, on a thread that waits, or by a new program's call of __libc_start_main,
// when all libraries are initialised and main has not run yet.

#include "base/arch.h"
#include "base/memory.h"
#include "base/sys.h"
#include "hook/hook.h"
#include "hook/loader.h"
#include "hook/patch.h"
#include "image/image.h"
#include "image/lookup.h"

enum {
	BY_ITSELF = (int)0x80000000u, // glibc's __RTLD_DLOPEN, required by __libc_dlopen_mode
	STATUS_FAILED = 127, // exit status of a program whose patches failed
};

typedef void *open_function(const char *path, int mode);
typedef int close_function(void *handle);
typedef char *error_function(void);
typedef uint64_t resolver(void);

static uint64_t find(const struct sosc_loaded *image, const char *name)
{
	const Elf64_Sym *symbol = sosc_lookup(image, name, sosc_gnu_hash(name), NULL);
	uint64_t addr;

	if (!symbol)
		return 0;
	addr = image->bias + symbol->st_value;
	return ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC ? ((resolver *)addr)() : addr;
}

static uint64_t find_anywhere(const char *name)
{
	for (uint32_t i = 0; i < sosc_loaded_count; i++) {
		uint64_t addr = 0;

		if (sosc_loaded[i].map && !sosc_loaded[i].ns)
			addr = find(&sosc_loaded[i], name);
		if (addr)
			return addr;
	}
	return 0;
}

static const struct sosc_loaded *image_of(const struct sosc_patch_library *library)
{
	for (int tries = 0; tries < 2; tries++) {
		for (uint32_t i = 0; i < sosc_loaded_count; i++)
			if (sosc_loaded[i].map && (uint64_t)sosc_loaded[i].map == library->handle)
				return &sosc_loaded[i];
		sosc_loader_changed(); // in case the loader has not called its r_brk function
	}
	return NULL;
}

// Returns the address of the symbol's definition, outside of @except, whose references mean another
// definition. Libraries of other patches are used only if no other image defines it, because they
// may be closed before this one.
static uint64_t definition(const char *name, const struct sosc_loaded *except)
{
	for (int only_own = 1; only_own >= 0; only_own--)
		for (uint32_t i = 0; i < sosc_loaded_count; i++) {
			const struct sosc_loaded *image = &sosc_loaded[i];
			uint64_t addr = 0;

			if (image->map && !image->ns && image != except &&
			    !(only_own && sosc_patch_is_library(image)))
				addr = find(image, name);
			if (addr)
				return addr;
		}
	return 0;
}

// Finds the definition of a patch's symbol and stores it in the variable of @image, its library.
// Returns false if no image defines it.
static bool find_original(struct sosc_patch *patch, const struct sosc_loaded *image)
{
	uint64_t variable;

	patch->original = definition(sosc_patches_text(patch->symbol), image);
	if (!patch->original)
		return false;
	variable = find(image, sosc_patches_text(patch->variable));
	if (variable && sosc_segment_flags(image, variable) & PF_W)
		(void)sosc_write(variable, &patch->original, sizeof(patch->original), false);
	return true;
}

static bool fail(enum sosc_patches_failure why, uint32_t index)
{
	sosc_patches()->why = why;
	sosc_patches()->failed = index;
	return false;
}

static void keep_text(const char *text)
{
	uint32_t size = 0;

	for (; text && text[size] && size < SOSC_PATCHES_TEXT - 1; size++)
		sosc_patches()->text[size] = (uint8_t)text[size];
	sosc_patches()->text[size] = 0;
}

static bool open_library(uint32_t index)
{
	struct sosc_patch_library *library = sosc_patch_library_at(index);
	open_function *open = (open_function *)find_anywhere("dlopen");
	error_function *error = (error_function *)find_anywhere("dlerror");
	int mode = RTLD_NOW;

	if (!open) { // before glibc 2.34, in a program without libdl
		open = (open_function *)find_anywhere("__libc_dlopen_mode");
		mode |= BY_ITSELF;
	}
	if (!open)
		return fail(SOSC_PATCHES_NO_LOADER, index);
	library->handle = (uint64_t)open(sosc_patches_text(library->path), mode);
	if (library->handle)
		return true;
	keep_text(error ? error() : NULL);
	return fail(SOSC_PATCHES_NO_LIBRARY, index);
}

static void close_handle(uint64_t handle)
{
	close_function *close = (close_function *)find_anywhere("dlclose");

	if (!close)
		close = (close_function *)find_anywhere("__libc_dlclose");
	if (close)
		(void)close((void *)handle);
}

// Looks up everything for a patch. Its slots are led to @function only after all patches have
// succeeded.
static bool look_up(uint32_t index, uint64_t *function)
{
	struct sosc_patch *patch = sosc_patch_at(index);
	const struct sosc_loaded *image = image_of(sosc_patch_library_at(patch->library));

	if (!image)
		return fail(SOSC_PATCHES_NOT_SEEN, patch->library);
	*function = find(image, sosc_patches_text(patch->name));
	if (!*function || !sosc_addr_executable(image, *function))
		return fail(SOSC_PATCHES_NO_FUNCTION, index);
	return find_original(patch, image) || fail(SOSC_PATCHES_NO_SYMBOL, index);
}

/** @image is about to be unloaded: originals in it have to be found elsewhere. */
void sosc_patches_lose(const struct sosc_loaded *image)
{
	for (uint32_t i = 0; i < sosc_patches()->count; i++) {
		struct sosc_patch *patch = sosc_patch_at(i);

		if (patch->original >= image->start && patch->original < image->end)
			patch->original = 0;
	}
}

/** Find originals whose images were unloaded, before slots of their callers are hooked. */
void sosc_patches_find(void)
{
	for (uint32_t i = 0; i < sosc_patches()->count; i++) {
		struct sosc_patch *patch = sosc_patch_at(i);
		const struct sosc_loaded *image;

		if (!patch->function || patch->original)
			continue;
		image = sosc_image_of(patch->function);
		if (image)
			(void)find_original(patch, image);
	}
}

static bool load_all(void)
{
	uint64_t functions[SOSC_MAX_PATCHES];
	bool fresh[SOSC_MAX_PATCH_LIBRARIES] = {false}, good = true;

	for (uint32_t i = 0; good && i < sosc_patches()->libraries; i++)
		if (sosc_patch_library_at(i)->path && !sosc_patch_library_at(i)->handle)
			good = fresh[i] = open_library(i);
	for (uint32_t i = 0; good && i < sosc_patches()->count; i++) {
		functions[i] = sosc_patch_at(i)->function;
		if (sosc_patch_at(i)->symbol && !functions[i])
			good = look_up(i, &functions[i]);
	}
	for (uint32_t i = 0; good && i < sosc_patches()->count; i++)
		sosc_patch_at(i)->function = functions[i];
	for (uint32_t i = 0; !good && i < sosc_patches()->libraries; i++)
		if (fresh[i]) {
			close_handle(sosc_patch_library_at(i)->handle);
			sosc_patch_library_at(i)->handle = 0;
		}
	return good;
}

/**
 * Load the missing libraries. soscope calls this on a thread that waits, while other threads run.
 * Return enum sosc_patches_state.
 */
__attribute__((visibility("default"))) long soscope_agent_load(void *unused)
{
	(void)unused;
	if (sosc_patches_wait())
		sosc_patches()->state = load_all() ? SOSC_PATCHES_STAND : SOSC_PATCHES_FAILED;
	return (long)sosc_patches()->state;
}

/** Close a library. Called in the same way as soscope_agent_load. */
__attribute__((visibility("default"))) long soscope_agent_unload(const uint64_t *handle)
{
	close_handle(*handle);
	return 0;
}

// Copies the table to the block for soscope, which has started this program.
static void publish(void)
{
	if (sosc_patches()->size <= sosc_session->section[SOSC_SEC_PATCHED].size)
		memcpy(sosc_section(SOSC_SEC_PATCHED), sosc_patches(), sosc_patches()->size);
}

/**
 * The program is about to run: put all patches in force. If that fails and the program must not run
 * without them, end it.
 */
void sosc_patches_begin(void)
{
	bool good = soscope_agent_load(NULL) == SOSC_PATCHES_STAND;

	for (uint32_t i = 0; good && i < sosc_loaded_count; i++)
		sosc_image_patch(&sosc_loaded[i]);
	publish();
	if (!good && sosc_patches()->flags & SOSC_PATCHES_MUST)
		(void)sosc_sys3(SYS_EXIT_GROUP, STATUS_FAILED, 0, 0);
}
