// SPDX-License-Identifier: Apache-2.0
/** Which slots are chosen, and by which instruments. */
#ifndef SOSC_SELECT_H
#define SOSC_SELECT_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

struct sosc_chosen { // the choice of one instrument
	uint32_t plan; // index in sosc_session->plan
	const struct sosc_function *function; // entry of the function; never NULL
	uint16_t flags; // its flags, with the flags of a matching glob
	bool unknown; // no table has the function
	bool asked; // soscope was asked already, and the name tells it nothing
};

struct sosc_choice { // the instruments that want to see a slot's calls
	uint32_t count;
	struct sosc_chosen of[SOSC_PLANS];
};

bool sosc_automaton_matches(const struct sosc_automaton *automaton, const char *name);
void sosc_select_image(struct sosc_loaded *image, bool again);
bool sosc_rule_holds(const struct sosc_rule *rule, const struct sosc_loaded *image,
		     const char *symbol);
bool sosc_is_chosen(const struct sosc_plan *plan, const char *symbol,
		    const struct sosc_loaded *callee);
bool sosc_select_slot(const char *symbol, const char *version, struct sosc_loaded *callee,
		      struct sosc_choice *choice);
bool sosc_selects_methods(const struct sosc_loaded *image, bool own);
bool sosc_selects_any_methods(void);
bool sosc_select_method(const char *symbol, struct sosc_loaded *callee, bool own,
			struct sosc_choice *choice);

#pragma GCC visibility pop

#endif
