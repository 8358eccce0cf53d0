// SPDX-License-Identifier: Apache-2.0
/**
 * What instruments that act on calls share with soscope: a part of wire.h.
 */
#ifndef SOSCOPE_INJECT_H
#define SOSCOPE_INJECT_H

#include <stdint.h>

// ---- what INJECT has of its own ----------------------------------------------

// This header, struct sosc_inject_rule[rules], struct sosc_inject_outcome for each rule of the
// filter in its plan, then places: struct sosc_inject_point[points] for each process.
struct sosc_inject {
	uint32_t rules;
	uint32_t outcomes;
	uint32_t points; // a place has
	uint32_t places;
	uint32_t places_used; // agent adds: processes
	uint32_t points_lost; // agent: pairs of rule and function without room, not injected
	uint64_t first_rule; // offsets from this struct
	uint64_t first_outcome;
	uint64_t first_place;
};

enum sosc_inject_flag {
	SOSC_INJECT_RETURN = 1, // the function is not called
	SOSC_INJECT_ERRNO = 2, // errno is set
	SOSC_INJECT_CHANCE = 4, // of a rule: chosen by `chance`
};

struct sosc_inject_rule { // which calls of a point, by their numbers from 1 on
	uint64_t first;
	uint64_t last;
	uint64_t step;
	uint64_t seed;
	uint64_t chance; // a call is chosen when its number, mixed with the seed, is below
	uint64_t delay_enter; // ns
	uint64_t delay_exit; // ns
	uint64_t site; // vaddr of the instruction after the call, 0 = any
	uint32_t site_rule; // the plan's rule whose image that is, SOSC_NONE
	uint32_t flags; // enum sosc_inject_flag
};

struct sosc_inject_outcome { // what a rule of the filter leads to
	uint64_t value;
	int32_t error;
	uint16_t rule; // struct sosc_inject_rule
	uint16_t flags; // enum sosc_inject_flag
};

struct sosc_inject_point { // a rule and a function, in one process
	uint64_t calls;
	uint64_t injected;
	uint32_t rule; // plus one; 0 = not in use
	uint32_t reserved;
};

struct sosc_injected { // what a record of a chosen call holds
	uint32_t flags; // enum sosc_inject_flag
	int32_t error; // what errno became
};

// ---- what OPEN and CLOSE have of their own -----------------------------------

struct sosc_trigger {
	uint64_t calls; // of the symbols that are waited for
	uint64_t tsc; // of the first one since soscope has set it to 0
};

#endif
