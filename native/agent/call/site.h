// SPDX-License-Identifier: Apache-2.0
/** Return trampolines and their data. */
#ifndef SOSC_SITE_H
#define SOSC_SITE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_site { // data behind a return trampoline; ret and cell never change
	uint64_t ret;
	uint64_t cell;
	uint64_t original; // copy of the cell's `original`
	uint8_t rule; // enum sosc_error_rule
	uint8_t flags; // SITE_FLAG_*
	uint8_t depth; // length of the chain of tail calls that led to ret
	uint8_t ns; // namespace of the caller, which selects its errno
	// TRACE: commit word of its OPEN units, 0 = none; COUNT and STATS: offset from the cell to
	// the counter of calls from here, as an int32_t
	uint32_t open;
};

struct sosc_cell;
struct sosc_thread;

extern struct sosc_site sosc_sitedata[SOSC_MAX_SITES];
extern const uint8_t sosc_sites[];
extern uint64_t sosc_hints[1 << HINT_BITS]; // trampolines by hash; entries may be outdated

void sosc_sites_init(void);
void sosc_sites_refresh(void);
bool sosc_is_tail_called(uint64_t ret, const struct sosc_cell *cell);
uint64_t sosc_site_find(uint64_t ret, struct sosc_cell *cell);
uint64_t sosc_site_returns_to(uint64_t addr);
void sosc_account(struct sosc_thread *thread, uint64_t start);
void sosc_sites_retarget(struct sosc_cell *cell, uint64_t original);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_site) == SOSC_SITE_SIZE, "layout.h");
_Static_assert(offsetof(struct sosc_site, rule) == SITE_RULE, "layout.h");
_Static_assert(offsetof(struct sosc_site, flags) == SITE_FLAGS, "layout.h");
_Static_assert(offsetof(struct sosc_site, depth) == SITE_DEPTH, "layout.h");
_Static_assert(offsetof(struct sosc_site, ns) == SITE_NAMESPACE, "layout.h");
_Static_assert(offsetof(struct sosc_site, open) == SITE_OPEN, "layout.h");

#endif
