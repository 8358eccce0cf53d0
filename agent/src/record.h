// SPDX-License-Identifier: Apache-2.0
/**
 * What soscope reads of images: their records, and the section of strings.
 */
#ifndef SOSC_RECORD_H
#define SOSC_RECORD_H

#include "agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

void sosc_image_record(struct sosc_loaded *image, uint32_t flags);
uint32_t sosc_string(const char *text); // offset in SEC_STRINGS, 0 when full
const char *sosc_string_at(uint32_t offset);
void sosc_strings_again(void);

#pragma GCC visibility pop

#endif
