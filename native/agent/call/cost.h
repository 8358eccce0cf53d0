// SPDX-License-Identifier: Apache-2.0
/**
 * The cost that a hook adds to an empty call, measured in the process itself when a session begins.
 */
#ifndef SOSC_COST_H
#define SOSC_COST_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

enum {
	COST_CALLS = 64,
	COST_ROUNDS = 12,
	COST_UNITS = (COST_CALLS + 2) * 2 * SOSC_UNIT, // bytes of records that the calls write
};

struct sosc_cost {
	uint32_t cell; // taken for this, belongs to no slot
	uint32_t rounds[2];
	// smallest ticks of COST_CALLS calls that follow each other directly
	uint64_t direct, hooked;
	// additional ticks of hooked calls in each round: directly following calls, calls apart
	int64_t more[2][COST_ROUNDS];
};

bool sosc_cost_begin(struct sosc_cost *cost, enum sosc_instrument_kind kind, uint64_t handler);
void sosc_cost_round(struct sosc_cost *cost, bool apart);
void sosc_cost_less(struct sosc_cost *cost, bool apart, uint64_t ticks);
uint64_t sosc_cost_usual(struct sosc_cost *cost);
uint64_t sosc_cost_end(const struct sosc_cost *cost);
uint64_t sosc_cost_units(void);

#pragma GCC visibility pop

#endif
