// SPDX-License-Identifier: Apache-2.0
/**
 * Slots of a program that counts its own calls: the images, and words that are changed while
 * threads run.
 */
#ifndef SOSC_TALLYSLOTS_H
#define SOSC_TALLYSLOTS_H

#include "image/image.h"
#include "tally/tally.h"

#pragma GCC visibility push(hidden)

enum { TALLY_IMAGES_MAX = 2048 };

struct sosc_tally_image {
	struct sosc_loaded loaded; // .map is NULL: this entry is free
	bool is_done; // all its slots were handled
	bool is_listed; // its slots whose address is taken were reported
	bool is_here;
};

extern struct sosc_tally_image sosc_tally_images[TALLY_IMAGES_MAX];
extern uint32_t sosc_tally_image_count; // entries used so far
extern uint32_t sosc_tally_sqlites; // images with SQLite

void sosc_tally_list_images(struct link_map *first, uint64_t usable);
struct sosc_tally_image *sosc_tally_image_at(uint64_t addr);
bool sosc_tally_is_canonical(uint64_t value, const char *name);

int sosc_tally_protection(uint64_t addr);
bool sosc_tally_exchange(uint64_t addr, uint64_t from, uint64_t to, bool closed);
bool sosc_tally_redirect(uint64_t field, uint64_t from, uint64_t to, bool text);

void sosc_tally_hook_all(uint64_t agent, bool some_went);
void sosc_tally_unhook_all(bool some_went);
void sosc_tally_forget_lefts(void);
void sosc_tally_leave_image(const char *path, enum sosc_tally_why why);
void sosc_tally_tell_slots(struct sosc_tally *tally);

#pragma GCC visibility pop

#endif
