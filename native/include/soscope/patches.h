// SPDX-License-Identifier: Apache-2.0
/**
 * Functions that replace others: the table that soscope writes and the agent keeps.
 *
 * The table comes in SOSC_SEC_PATCHES of a control block. At its start the agent copies the table
 * into memory of its own, and keeps it in force after that session and all later ones have ended.
 * Offsets are bytes from the start of the table:
 *
 *	struct sosc_patches | sosc_patch[] | sosc_patch_library[]
 *	| sosc_patch_from[], names, automata
 */
#ifndef SOSCOPE_PATCHES_H
#define SOSCOPE_PATCHES_H

#include <stdint.h>

enum {
	SOSC_PATCHES_SIZE = 262144, // room for the agent's copy of the table
	SOSC_MAX_PATCHES = 256,
	SOSC_MAX_PATCH_LIBRARIES = 64,
	SOSC_PATCHES_TEXT = 512, // bytes for the loader's error message, with its NUL
};

enum sosc_patches_state {
	SOSC_PATCHES_NONE = 0,
	SOSC_PATCHES_WAITING = 1, // the libraries are not loaded yet
	SOSC_PATCHES_STAND = 2,
	SOSC_PATCHES_FAILED = 3, // no new patch is in force; `why` has the reason
};

enum sosc_patches_failure {
	SOSC_PATCHES_FINE = 0,
	SOSC_PATCHES_NO_LOADER = 1, // the process has no dlopen
	SOSC_PATCHES_NO_LIBRARY = 2, // library `failed` could not be loaded; `text` has the message
	SOSC_PATCHES_NOT_SEEN = 3, // library `failed` is loaded, but not in the loader's list
	SOSC_PATCHES_NO_FUNCTION = 4, // the library of patch `failed` does not define it
	SOSC_PATCHES_NO_SYMBOL = 5, // no image defines the symbol of patch `failed`
};

enum sosc_patches_flag {
	SOSC_PATCHES_MUST = 1, // at a launch: if the patches fail, the program must not run
};

struct sosc_patches {
	uint32_t size; // bytes in use, 0 = there is no table
	uint32_t flags; // enum sosc_patches_flag
	uint32_t count; // of struct sosc_patch
	uint32_t libraries;
	uint32_t first_library; // offset of struct sosc_patch_library[]
	uint32_t state; // agent: enum sosc_patches_state
	uint32_t why; // agent: enum sosc_patches_failure
	uint32_t failed; // agent: index of the patch or library
	uint8_t text[SOSC_PATCHES_TEXT];
};

struct sosc_patch {
	uint64_t function; // where slots lead; 0 = not yet known, or withdrawn
	uint64_t original; // agent: address of the symbol's own definition
	uint32_t symbol; // offset of the symbol's name; 0 = this entry is free
	uint32_t name; // offset of the function's name
	uint32_t variable; // offset of the name of the pointer variable that receives the original
	uint32_t library; // index
	uint32_t from; // offset of struct sosc_patch_from[]: callers that are patched
	uint32_t from_count; // 0 = all images
	uint32_t slots; // agent: number that lead to the function
	uint32_t left; // agent: number left alone because the function's address is taken
};

struct sosc_patch_library {
	uint64_t handle; // agent: dlopen's, 0 = not loaded
	uint32_t path; // offset
	uint32_t kept; // 1 = never closed, because code may hold addresses in it
};

enum sosc_patch_from_kind {
	SOSC_PATCH_FROM_NAME = 0, // the automaton runs on the image's name
	SOSC_PATCH_FROM_PATH = 1, // the automaton runs on the image's path
	SOSC_PATCH_FROM_MAIN = 2, // the program itself
};

struct sosc_patch_from {
	uint32_t kind; // enum sosc_patch_from_kind
	uint32_t automaton; // offset of a struct sosc_automaton
};

#endif
