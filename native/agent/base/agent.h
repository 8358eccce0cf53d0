// SPDX-License-Identifier: Apache-2.0
/**
 * What every file of the agent may use: the control block, and replacements for libc functions.
 * Every variable is zero at the start and private to the process, except what sosc_control points
 * to. A forked child has a copy.
 */
#ifndef SOSC_AGENT_H
#define SOSC_AGENT_H

#define _GNU_SOURCE // struct dl_phdr_info
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/layout.h"
#include "soscope/tables.h"
#include "soscope/wire.h"

#pragma GCC visibility push(hidden)

/**
 * The layout of the control block and of the plan, and what the session is to do. The agent reads
 * all of it once, when the session begins. soscope shares the block, and so do children of this
 * process, which may have other privileges. Nothing that they write into the block may make the
 * agent read or write elsewhere, so each index that comes from the block is checked against this
 * struct.
 */
struct sosc_session {
	struct sosc_control *control;
	const struct sosc_plan_head *head; // the plan, mapped read-only
	uint32_t flags; // enum sosc_flag
	uint32_t string_limit; // bytes
	uint32_t chunks; // number of chunks in the ring
	uint32_t usual_chunks; // number of chunks without the spare ones
	uint32_t count_arrays; // how many
	uint32_t rules; // how many
	uint32_t plans; // how many
	struct sosc_range
		// offsets from the start of the block, for the plan's sections as well
		section[SOSC_SECTIONS];
	struct sosc_plan plan[SOSC_PLANS];
};

extern struct sosc_control *sosc_control;
extern const struct sosc_session *sosc_session;
extern struct sosc_inside sosc_inside;

static inline void *sosc_section(enum sosc_section section)
{
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);

	return (uint8_t *)session->control + session->section[section].offset;
}

static inline struct sosc_slot *sosc_slot(uint32_t index)
{
	return (struct sosc_slot *)sosc_section(SOSC_SEC_SLOTS) + index;
}

// There is no libc, and the compiler may emit calls of these.
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
