// SPDX-License-Identifier: Apache-2.0
/** What soscope shares with the instruments that act on calls. Part of wire.h. */
#ifndef SOSCOPE_INJECT_H
#define SOSCOPE_INJECT_H

#include <stdint.h>

// ---- INJECT's own memory ------------------------------------------------------

// This header, struct sosc_inject_rule[rules], one struct sosc_inject_outcome for each rule of the
// plan's filter, then one place for each process: struct sosc_inject_point[points].
struct sosc_inject {
	uint32_t rules;
	uint32_t outcomes;
	uint32_t points; // in each place
	uint32_t places;
	uint32_t places_used; // agent adds: processes that asked for a place
	// agent: pairs of rule and function that found no room and are not injected
	uint32_t points_lost;
	uint64_t first_rule; // offsets from this struct
	uint64_t first_outcome;
	uint64_t first_place;
};

enum sosc_inject_flag {
	SOSC_INJECT_RETURN = 1, // the function is not called
	SOSC_INJECT_ERRNO = 2, // errno is set to `error`
	SOSC_INJECT_CHANCE = 4, // in a rule: calls are chosen at random, see `chance`
};

struct sosc_inject_rule { // the calls of a point that are chosen, by their numbers from 1 on
	uint64_t first;
	uint64_t last;
	uint64_t step;
	uint64_t seed;
	uint64_t chance; // a call is chosen if its number, mixed with the seed, is below this
	uint64_t delay_enter; // ns
	uint64_t delay_exit; // ns
	uint64_t site; // vaddr of the instruction after the call; 0 = any call site
	// index of the plan's rule that matches the image of `site`; SOSC_NONE = any image
	uint32_t site_rule;
	uint32_t flags; // enum sosc_inject_flag
};

struct sosc_inject_outcome { // what happens to calls that a rule of the filter matches
	uint64_t value;
	int32_t error;
	uint16_t rule; // index of the struct sosc_inject_rule
	uint16_t flags; // enum sosc_inject_flag
};

struct sosc_inject_point { // a rule and a function, in one process
	uint64_t calls;
	uint64_t injected;
	uint32_t rule; // index + 1 of the rule; 0 = free
	uint32_t reserved;
};

struct sosc_injected { // recorded for each chosen call
	uint32_t flags; // enum sosc_inject_flag
	int32_t error; // new value of errno
};

// ---- OPEN's and CLOSE's own memory --------------------------------------------

struct sosc_trigger {
	uint64_t calls; // calls of the symbols that open or close the gate
	uint64_t tsc; // of the first such call since soscope stored 0 here
};

#endif
