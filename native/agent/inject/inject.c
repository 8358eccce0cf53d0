// SPDX-License-Identifier: Apache-2.0
// Calls that fail or wait according to rules, which choose calls by their number. Each chosen call
// is recorded.
//
// A slot has a list of links, made when the slot is hooked: one for each rule that applies to it.
// Calls are counted in points, one for each rule and function, separately in each process.

#include "base/arch.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/sys.h"
#include "call/cell.h"
#include "call/handler.h"
#include "call/site.h"
#include "hook/slot.h"
#include "image/image.h"
#include "image/namespace.h"
#include "ring/record.h"
#include "thread/park.h"
#include "thread/thread.h"
#include "trace/trace.h"

enum {
	RULES_MAX = 64, // soscope has the same limit
	LINKS_MAX = 65536,
	POINTS_MAX = 4096,
	SLICE = 100000000, // ns of a delay between two checks whether the session has ended
	// added to a cell's address, so that its places differ from the places of TRACE and STATS
	PARKED_EXIT = 8,
};

struct sosc_link {
	uint64_t point; // offset in bytes from the first point
	uint64_t first; // number of the first call that the rule may choose
	uint64_t span; // number of the last call that the rule may choose, less `first`
	uint64_t site; // return address, 0 = any
	uint32_t outcome;
	uint32_t last; // 1: the last link of its slot
};

struct sosc_link sosc_links[LINKS_MAX]; // the first one is unused
static uint32_t link_count;
uint32_t sosc_link_heads[SOSC_MAX_SLOTS]; // by cell: index of its first link, 0 = none

static struct { // the meaning of this process's points
	uint32_t rule;
	uint32_t symbol; // offset in SEC_STRINGS
} names[POINTS_MAX];
static uint32_t name_count;

struct sosc_inject_point *sosc_inject_points; // the points of this process

// For this session: what soscope has given, and where this process counts.
static const struct sosc_inject *plan;
static struct sosc_inject *counted_in;
static struct sosc_inject_point without_place[POINTS_MAX];
// last heartbeat that soscope_is_gone has seen, and when in ns, 0 = not yet
static uint64_t heartbeat, since;

static const struct sosc_inject_outcome *outcomes(void)
{
	return (const void *)((const uint8_t *)plan + plan->first_outcome);
}

static const struct sosc_inject_rule *rule_of(const struct sosc_inject_outcome *outcome)
{
	const void *rules = (const uint8_t *)plan + plan->first_rule;

	return (const struct sosc_inject_rule *)rules + (outcome->rule & (RULES_MAX - 1));
}

// Takes a place for the counts of this process, which start at 0. The counts of processes that have
// ended stay.
static void take_place(void)
{
	uint32_t place = __atomic_fetch_add(&counted_in->places_used, 1, __ATOMIC_RELAXED);
	struct sosc_inject_point *mine = without_place;

	if (place < plan->places)
		mine = (void *)((uint8_t *)counted_in + plan->first_place +
				(uint64_t)place * plan->points * sizeof(*mine));
	else
		memset(without_place, 0, sizeof(without_place));
	for (uint32_t i = 0; i < name_count; i++)
		mine[i].rule = names[i].rule + 1;
	__atomic_store_n(&sosc_inject_points, mine, __ATOMIC_RELEASE);
}

static void start(void)
{
	counted_in = sosc_own(SOSC_INSTRUMENT_INJECT, sizeof(*counted_in));
	plan = counted_in ? sosc_given(SOSC_INSTRUMENT_INJECT, sizeof(*plan)) : NULL;
	link_count = 1;
	name_count = 0;
	since = 0; // each soscope starts with the same heartbeat values
	if (plan)
		take_place();
}

static void forked(void)
{
	if (plan)
		take_place();
}

// ---- hooking a slot --------------------------------------------------------------

static uint32_t point_for(uint32_t rule, const char *symbol, uint32_t name)
{
	const char *strings = sosc_section(SOSC_SEC_STRINGS);
	uint32_t i;

	for (i = 0; i < name_count; i++)
		if (names[i].rule == rule && sosc_same(strings + names[i].symbol, symbol))
			return i;
	if (i == plan->points || i == POINTS_MAX) {
		__atomic_fetch_add(&counted_in->points_lost, 1, __ATOMIC_RELAXED);
		return SOSC_NONE;
	}
	names[i].rule = rule;
	names[i].symbol = name;
	sosc_inject_points[i].rule = rule + 1;
	name_count = i + 1;
	return i;
}

// Returns which outcome a rule has for calls of the slot, SOSC_NONE: none. The last rule of the
// filter that matches decides, as it does for choosing slots.
static uint32_t outcome_of(const struct sosc_plan *filter, const struct sosc_candidate *at,
			   uint32_t rule)
{
	const struct sosc_rule *rules = sosc_section(SOSC_SEC_RULES);
	uint32_t outcome = SOSC_NONE;

	rules += filter->first_rule;
	for (uint32_t i = 0; i < filter->rules && i < plan->outcomes; i++) {
		if (outcomes()[i].rule != rule || rules[i].kind == SOSC_RULE_CALLER ||
		    !sosc_rule_holds(&rules[i], at->image, at->symbol))
			continue;
		outcome = rules[i].kind == SOSC_RULE_INCLUDE ? i : SOSC_NONE;
	}
	return outcome;
}

static bool site_of(const struct sosc_plan *filter, const struct sosc_candidate *at, uint32_t rule,
		    uint64_t *ret)
{
	const struct sosc_rule *rules = sosc_section(SOSC_SEC_RULES);
	const struct sosc_inject_rule *of = (const void *)((uint8_t *)plan + plan->first_rule);

	*ret = 0;
	if (of[rule].site_rule == SOSC_NONE)
		return true;
	*ret = at->image->bias + of[rule].site;
	return sosc_rule_holds(&rules[filter->first_rule + of[rule].site_rule], at->image,
			       at->symbol);
}

static bool is_same(uint32_t head, const struct sosc_link *made, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct sosc_link *link = &sosc_links[head + i];

		if (link->site != made[i].site || link->point != made[i].point ||
		    link->outcome != made[i].outcome || link->last != made[i].last)
			return false;
	}
	return true;
}

// Makes the links of a slot. Returns their number, or 0 if no rule applies, or there is no room.
static uint32_t link_up(const struct sosc_candidate *at, uint32_t cell,
			const struct sosc_plan *filter)
{
	struct sosc_link made[RULES_MAX];
	uint32_t count = 0, name = 0;

	for (uint32_t rule = 0; rule < plan->rules && rule < RULES_MAX; rule++) {
		uint32_t outcome = outcome_of(filter, at, rule), point;
		const struct sosc_inject_rule *of;
		uint64_t site;

		if (outcome == SOSC_NONE || !site_of(filter, at, rule, &site))
			continue;
		if (!name)
			name = sosc_string(at->symbol);
		point = point_for(rule, at->symbol, name);
		if (point == SOSC_NONE)
			continue;
		of = rule_of(&outcomes()[outcome]);
		made[count++] = (struct sosc_link){
			.point = point * sizeof(struct sosc_inject_point),
			.first = of->first,
			.span = of->last - of->first,
			.site = site,
			.outcome = outcome,
		};
	}
	if (!count)
		return 0;
	made[count - 1].last = 1;
	if (sosc_link_heads[cell] && sosc_link_heads[cell] + count <= link_count &&
	    is_same(sosc_link_heads[cell], made, count))
		return count; // its image was unloaded and loaded again
	if (link_count + count > LINKS_MAX) {
		__atomic_fetch_add(&counted_in->points_lost, 1, __ATOMIC_RELAXED);
		return 0;
	}
	memcpy(&sosc_links[link_count], made, count * sizeof(*made));
	__atomic_store_n(&sosc_link_heads[cell], link_count, __ATOMIC_RELEASE);
	link_count += count;
	return count;
}

static uint64_t hooked(const struct sosc_candidate *at, uint32_t cell)
{
	const struct sosc_plan *filter = sosc_plan_in(sosc_session, SOSC_INSTRUMENT_INJECT);
	uint32_t count = filter && plan ? link_up(at, cell, filter) : 0;

	if (!count) {
		__atomic_store_n(&sosc_link_heads[cell], 0, __ATOMIC_RELEASE);
		return (uint64_t)sosc_h_jump;
	}
	if (count > 1 || sosc_links[sosc_link_heads[cell]].site)
		return (uint64_t)sosc_h_layer;
	return (uint64_t)sosc_h_inject;
}

// ---- calls -----------------------------------------------------------------------

static uint64_t mixed(uint64_t word)
{
	word ^= word >> 30;
	word *= 0xbf58476d1ce4e5b9;
	word ^= word >> 27;
	word *= 0x94d049bb133111eb;
	return word ^ word >> 31;
}

static bool is_chosen(const struct sosc_inject_rule *rule, uint64_t number)
{
	if (number < rule->first || number > rule->last)
		return false;
	if (rule->step > 1 && (number - rule->first) % rule->step)
		return false;
	return !(rule->flags & SOSC_INJECT_CHANCE) ||
	       mixed(rule->seed + number * 0x9e3779b97f4a7c15) < rule->chance;
}

// Returns whether soscope has been killed: then failures are not reported any more, and nothing
// removes the rules. If soscope was stopped, or had no processor, it counts as back as soon as its
// heartbeat moves.
static bool soscope_is_gone(void)
{
	static const uint64_t patience = 5000000000; // ns
	uint64_t seen = __atomic_load_n(&sosc_control->heartbeat, __ATOMIC_ACQUIRE), now, then;

	if (sosc_is_sealed(NULL))
		return false;
	now = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
	then = __atomic_load_n(&since, __ATOMIC_RELAXED);
	if (then && seen == __atomic_load_n(&heartbeat, __ATOMIC_ACQUIRE))
		return now > then && now - then > patience;
	__atomic_store_n(&since, now, __ATOMIC_RELAXED);
	__atomic_store_n(&heartbeat, seen, __ATOMIC_RELEASE);
	return false;
}

static bool is_over(void)
{
	return sosc_is_quiet() || sosc_control->command == SOSC_COMMAND_STOP || soscope_is_gone();
}

// Waits in place of the function, on its stack. Signal handlers may run meanwhile.
static void delay(uint64_t ns)
{
	static const uint32_t nobody_wakes;

	for (uint64_t past = 0; past < ns && !is_over();) {
		uint64_t left = ns - past;
		uint64_t took =
			sosc_wait(&nobody_wakes, 0, (uint32_t)(left < SLICE ? left : SLICE));

		past += took ? took : 1;
	}
}

// Returns from the call without calling the function.
static enum sosc_next give_result(const struct sosc_call *call,
				  const struct sosc_inject_outcome *outcome,
				  const struct sosc_injected *injected)
{
	const struct sosc_inject_rule *rule = rule_of(outcome);
	int64_t place = sosc_errno_offsets[call->layer->ns];
	uint64_t value = outcome->value; // the session may end during the wait
	bool is_recorded = sosc_record_entry(call->regs, injected);

	delay(rule->delay_enter);
	delay(rule->delay_exit);
	*sosc_result(call->regs) = value;
	if (injected->flags & SOSC_INJECT_ERRNO && place)
		sosc_set_thread_word(place, (uint32_t)injected->error);
	if (is_recorded)
		sosc_record_result(call->regs, &sosc_cells[call->cell],
				   (int32_t)sosc_thread_word(place));
	return SOSC_RETURN_NOW;
}

// Returns the data of a return trampoline. Returns NULL if @addr is not one.
static struct sosc_site *site_at(uint64_t addr)
{
	bool is_site = addr - (uint64_t)sosc_sites < (uint64_t)SOSC_MAX_SITES * SOSC_SITE_SIZE;

	return is_site ? (struct sosc_site *)(addr + SOSC_DISTANCE) : NULL;
}

// Lets the function be called, with a delay before or after it.
static enum sosc_next let_through(struct sosc_call *call, const struct sosc_inject_outcome *outcome,
				  const struct sosc_injected *injected)
{
	const struct sosc_inject_rule *rule = rule_of(outcome);
	struct sosc_cell *cell = &sosc_cells[call->cell];
	uint64_t enter = rule->delay_enter, leave = rule->delay_exit;
	struct sosc_site *site;

	call->target = sosc_record_entry(call->regs, injected);
	site = site_at(call->target);
	// calls that were not chosen do not go through the trampoline, so the slot may have been
	// bound since
	if (site)
		site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	if (leave && call->thread) {
		uint64_t key = (uint64_t)cell + PARKED_EXIT;
		struct sosc_parked *parked = sosc_parked_find(call->thread, call->sp, key);

		if (!parked)
			parked = sosc_parked_place(call->thread, call->sp, cell, true);
		if (parked) {
			parked->cell = key;
			parked->a = leave;
			parked->sp = call->sp;
		}
	}
	delay(enter);
	return SOSC_GO_TO;
}

static struct sosc_inject_point *point_of(const struct sosc_link *link)
{
	return (void *)((uint8_t *)sosc_inject_points + link->point);
}

// Counts the call if the link applies to it. Returns its number, or 0.
static uint64_t counted(const struct sosc_link *link, const struct sosc_call *call)
{
	uint64_t ret = call->regs->ret, caller;

	if (call->number)
		return call->number;
	if (link->site) { // the return address may be in another instrument's trampoline
		caller = sosc_site_returns_to(ret);
		if (link->site != (caller ? caller : ret))
			return 0;
	}
	return 1 + __atomic_fetch_add(&point_of(link)->calls, 1, __ATOMIC_RELAXED);
}

static enum sosc_next entry(struct sosc_call *call)
{
	uint32_t head = __atomic_load_n(&sosc_link_heads[call->cell], __ATOMIC_ACQUIRE);
	const struct sosc_inject_outcome *chosen = NULL;
	struct sosc_inject_point *of = NULL;
	struct sosc_injected injected;

	if (!head)
		return SOSC_GO_ON;
	for (const struct sosc_link *link = &sosc_links[head];; link++) {
		const struct sosc_inject_outcome *outcome = &outcomes()[link->outcome];
		uint64_t number = counted(link, call);

		if (number && !chosen && is_chosen(rule_of(outcome), number)) {
			chosen = outcome;
			of = point_of(link);
		}
		if (link->last)
			break;
	}
	if (!chosen || is_over())
		return SOSC_GO_ON;
	__atomic_fetch_add(&of->injected, 1, __ATOMIC_RELAXED);
	injected.flags = chosen->flags;
	injected.error = chosen->error;
	if (injected.flags & SOSC_INJECT_RETURN)
		return give_result(call, chosen, &injected);
	return let_through(call, chosen, &injected);
}

static void leave(struct sosc_call *call)
{
	uint64_t key = (uint64_t)&sosc_cells[call->cell] + PARKED_EXIT;
	struct sosc_parked *parked = NULL;

	if (call->thread)
		parked = sosc_parked_find(call->thread, call->sp, key);
	if (parked) {
		uint64_t ns = parked->a;

		parked->sp = 0;
		delay(ns);
	}
	sosc_record_exit(call->regs);
}

void sosc_instrument_inject(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_IDS | SOSC_NEEDS_CLOCK | SOSC_NEEDS_PARKED;
	instrument->hooked = hooked;
	instrument->entry = entry;
	instrument->exit = leave;
	instrument->start = start;
	instrument->forked = forked;
}

_Static_assert(sizeof(struct sosc_link) == LINK_SIZE, "layout.h");
_Static_assert(offsetof(struct sosc_link, point) == LINK_POINT, "layout.h");
_Static_assert(offsetof(struct sosc_link, first) == LINK_FIRST, "layout.h");
_Static_assert(offsetof(struct sosc_link, span) == LINK_SPAN, "layout.h");
_Static_assert(offsetof(struct sosc_inject_point, calls) == 0, "arch_*.S");
