// SPDX-License-Identifier: Apache-2.0
/**
 * The agent's C files in an ordinary program: a control block, and what the
 * assembly and the launcher would have provided.
 */
#ifndef HOST_H
#define HOST_H

#include "base/agent.h"

#include <stdio.h>
#include <stdlib.h>

struct sosc_blocks;
struct sosc_cell;
struct sosc_loaded;
struct sosc_python;

enum {
	HOST_STRINGS = 1 << 20,
	HOST_ARRAYS = 4,
};

/** The plan of host_control, to change what it says: host_look has the agent read it. */
extern struct sosc_plan_head *host_plan;

/** A control block with all sections; of SEC_FUNCTIONS only a default function. */
struct sosc_control *host_control(enum sosc_instrument_kind kind, uint32_t chunks);

/** Put @size bytes of a section where the agent looks for them. */
void host_section(enum sosc_section section, const void *bytes, uint64_t size);

/** What the instrument of host_control has of its own, which the plan says, too. */
void host_own(const void *bytes, uint64_t size);

/** Have the agent read what the control block says of itself, after a change. */
void host_look(void);

/** A session begins that keeps stacks; @layout: of the one Python that it knows, NULL: it knows none. */
struct sosc_blocks *host_stacks(const struct sosc_python *layout);

/** Memory of @size bytes, all 0; what lies behind it cannot be read. */
void *host_edge(uint64_t size);

/** The whole content of a file; *size its length. Exits if there is none. */
void *host_read(const char *path, uint64_t *size);

/** A cell in use, with this function record. */
struct sosc_cell *host_cell(uint32_t index, const struct sosc_function *function);

/** Have a signal interrupt the threads that run, but not this one; NULL: no more. */
void host_interrupt(void (*handler)(int signal));

enum { HOST_SYMBOLS = 16 };

struct host_symbol {
	const char *name;
	void *addr;
};

/** An image that has all of memory, and defines these symbols. */
struct sosc_loaded *host_image(const struct host_symbol *symbols, uint32_t count);

void host_fail(const char *file, int line, const char *what);

#define CHECK(condition) ((condition) ? (void)0 : host_fail(__FILE__, __LINE__, #condition))

// A small generator: the same numbers everywhere.
static inline uint64_t host_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
