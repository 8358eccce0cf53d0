// SPDX-License-Identifier: Apache-2.0
/**
 * Origins: the places in code where objects are made, by number.
 */
#ifndef SOSC_ORIGIN_H
#define SOSC_ORIGIN_H

#include "base/agent.h"
#include "soscope/objects.h"

#pragma GCC visibility push(hidden)

enum {
	ORIGIN_UNKNOWN = 0, // there was no room
	ORIGIN_NOWHERE = 1, // no frame was running
	ORIGINS_FIRST = 2,
	ORIGIN_ALWAYS = 0, // an epoch that never ends, for addresses that are never reused
	ORIGIN_OURS = UINT32_MAX, // a file of soscope's own, whose objects are not counted
};

struct sosc_text { // a text that is copied from a code object
	const void *data;
	uint32_t size; // bytes
	uint32_t width;
};

struct sosc_code_texts {
	struct sosc_text file, name, lines;
};

enum { // words that are set to 0 in a forked child
	ORIGIN_LOCK_MAKE,
	ORIGIN_LOCK_RECENT, // pythonrecent.c
	ORIGIN_LOCKS,
};

extern struct sosc_objects_tally sosc_objects_tally; // counts of objects, and the origins
extern struct sosc_origin *sosc_origins;
extern uint32_t *sosc_origin_locks;

bool sosc_origins_init(void);
void sosc_origins_rest(void);
uint32_t sosc_origin_find(const struct sosc_origin *wanted, uint32_t epoch);
uint32_t sosc_origin_nowhere(uint32_t size);
uint32_t sosc_origin_code(const struct sosc_origin *wanted, const struct sosc_code_texts *texts,
			  bool make);
uint32_t sosc_origin_make(const struct sosc_origin *wanted, const struct sosc_code_texts *texts,
			  uint32_t epoch);

#pragma GCC visibility pop

#endif
