// SPDX-License-Identifier: Apache-2.0
/** What soscope reads about images: their records, and the section of strings. */
#ifndef SOSC_RECORD_H
#define SOSC_RECORD_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

extern bool sosc_images_told_apart; // some image of this process lies where another was before

void sosc_image_record(struct sosc_loaded *image, uint32_t flags);
void sosc_image_closed(const struct sosc_loaded *image, uint64_t since);
void sosc_images_forked(uint32_t pid, uint32_t parent);
void sosc_images_again(void);
uint64_t sosc_image_number(const struct sosc_loaded *image);
uint64_t sosc_with_image(uint64_t ret);
uint32_t sosc_string(const char *text); // offset in SEC_STRINGS, 0 if that is full
const char *sosc_string_at(uint32_t offset);
void sosc_strings_again(void);

#pragma GCC visibility pop

#endif
