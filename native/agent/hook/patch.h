// SPDX-License-Identifier: Apache-2.0
/** Functions that replace others, independently of sessions. */
#ifndef SOSC_PATCH_H
#define SOSC_PATCH_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_candidate;
struct sosc_loaded;

enum sosc_patched {
	SOSC_NOT_PATCHED, // no patch applies to the slot
	SOSC_PATCHED, // it leads to the patch's function, and `at` is updated
	SOSC_PATCH_LEFT, // a patch applies, but the slot was left as it is
};

struct sosc_patches *sosc_patches(void);
struct sosc_patch *sosc_patch_at(uint32_t index);
struct sosc_patch_library *sosc_patch_library_at(uint32_t index);
const char *sosc_patches_text(uint32_t offset);
void sosc_patches_start(void);
bool sosc_patches_stand(void);
bool sosc_patches_wait(void);
bool sosc_patch_is_library(const struct sosc_loaded *image);
bool sosc_patch_is_about(const struct sosc_candidate *at);
enum sosc_patched sosc_patch_slot(struct sosc_candidate *at, bool only_called);

// load.c
void sosc_patches_begin(void);
void sosc_patches_lose(const struct sosc_loaded *image);
void sosc_patches_find(void);

#pragma GCC visibility pop

long soscope_agent_load(void *unused);
long soscope_agent_unload(const uint64_t *handle);

#endif
