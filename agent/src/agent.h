// SPDX-License-Identifier: Apache-2.0
/**
 * What every file of the agent may use: the control block, and what there is instead of a libc.
 * Every variable is zero at start and private to the process, except what sosc_control points
 * to; a forked child has a copy.
 */
#ifndef SOSC_AGENT_H
#define SOSC_AGENT_H

#define _GNU_SOURCE // struct dl_phdr_info
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "soscope/tables.h"
#include "soscope/wire.h"

#pragma GCC visibility push(hidden)

extern struct sosc_control *sosc_control;
extern struct sosc_inside sosc_inside;

static inline void *sosc_section(enum sosc_section section)
{
	return (uint8_t *)sosc_control + sosc_control->section[section].offset;
}

static inline struct sosc_slot *sosc_slot(uint32_t index)
{
	return (struct sosc_slot *)sosc_section(SOSC_SEC_SLOTS) + index;
}

// The blob has no libc: the compiler may call these.
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);

static inline bool sosc_same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

#pragma GCC visibility pop

_Static_assert(SOSC_DISTANCE == SOSC_BLOB_DISTANCE, "wire.h");
_Static_assert(!(SOSC_DISTANCE & 0xffff), "layout.h");

#endif
