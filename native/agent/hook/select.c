// SPDX-License-Identifier: Apache-2.0
// Which slots to hook, and how: runs the tables that soscope has compiled.

#include "hook/select.h"
#include "image/image.h"
#include "image/lookup.h"
#include "ring/asksoscope.h"

enum { RULES_MAX = 1024 };

static uint8_t image_matches[RULES_MAX]; // for each rule: whether it matches the selected image
static struct sosc_loaded *selected; // the image given to sosc_select_image

/** Return whether the automaton accepts the whole of @name. */
bool sosc_automaton_matches(const struct sosc_automaton *automaton, const char *name)
{
	const uint16_t *next = (const void *)((const uint8_t *)automaton + automaton->next);
	uint32_t state = 1;

	for (; *name && state; name++)
		state = next[state * automaton->classes + automaton->class_of[(uint8_t)*name]];
	return ((const uint8_t *)automaton + automaton->accept)[state];
}

static bool pattern_matches(uint32_t pattern, const char *name)
{
	const uint8_t *patterns = sosc_section(SOSC_SEC_PATTERNS);
	const uint32_t *offsets = (const void *)(patterns + 4);

	if (pattern == SOSC_PATTERN_ANY)
		return true;
	if (pattern >= *(const uint32_t *)patterns)
		return false;
	return sosc_automaton_matches((const void *)(patterns + offsets[pattern]), name);
}

static const struct sosc_rule *rules(uint32_t *count)
{
	*count = sosc_session->rules < RULES_MAX ? sosc_session->rules : RULES_MAX;
	return sosc_section(SOSC_SEC_RULES);
}

// Counts one more slot, or one image, that rule @index has matched.
static void count_match(uint32_t index)
{
	uint32_t *matches = sosc_section(SOSC_SEC_MATCHES);

	__atomic_fetch_add(&matches[index], 1, __ATOMIC_RELAXED);
}

static bool image_rule(const struct sosc_rule *rule, const struct sosc_loaded *image)
{
	if (rule->image == SOSC_PATTERN_MAIN)
		return image && image->main;
	if (rule->image == SOSC_PATTERN_ANY)
		return true;
	if (!image)
		return false;
	return pattern_matches(rule->image,
			       rule->flags & SOSC_RULE_PATH ? image->path : image->name);
}

/** Return whether a rule matches calls of @symbol from @image. */
bool sosc_rule_holds(const struct sosc_rule *rule, const struct sosc_loaded *image,
		     const char *symbol)
{
	return image_rule(rule, image) && pattern_matches(rule->symbol, symbol);
}

/** Prepare sosc_select_slot for the slots of @image. @again: its slots are continued. */
void sosc_select_image(struct sosc_loaded *image, bool again)
{
	uint32_t count;
	const struct sosc_rule *rule = rules(&count);

	selected = image;
	for (uint32_t i = 0; i < count; i++, rule++) {
		if (!rule->kind)
			continue;
		image_matches[i] = rule->kind != SOSC_RULE_TO && image_rule(rule, image);
		if (image_matches[i] && rule->kind == SOSC_RULE_FROM && !again)
			count_match(i);
	}
}

/** Return whether the instrument of @plan has chosen calls of @symbol, by its rules. */
bool sosc_is_chosen(const struct sosc_plan *plan, const char *symbol,
		    const struct sosc_loaded *callee)
{
	uint32_t count;
	const struct sosc_rule *rule = rules(&count);
	uint64_t end = (uint64_t)plan->first_rule + plan->rules;
	bool chains = false, marked = false, any_marked = false;
	bool from = false, from_matched = false, to = false, to_matched = false;

	rule += plan->first_rule;
	for (uint32_t i = plan->first_rule; i < count && i < end; i++, rule++) {
		switch (rule->kind) {
		case SOSC_RULE_FROM:
			from = true;
			from_matched |= image_matches[i];
			break;
		case SOSC_RULE_TO:
			to = true;
			if (image_rule(rule, callee)) {
				to_matched = true;
				count_match(i);
			}
			break;
		case SOSC_RULE_INCLUDE:
		case SOSC_RULE_EXCLUDE:
			chains = true;
			if (rule->flags & SOSC_RULE_FIRST) {
				any_marked |= marked;
				marked = false;
			}
			if (image_matches[i] && pattern_matches(rule->symbol, symbol)) {
				marked = rule->kind == SOSC_RULE_INCLUDE;
				count_match(i);
			}
			break;
		default:
			break;
		}
	}
	any_marked |= marked;
	return (!chains || any_marked) && (!from || from_matched) && (!to || to_matched);
}

// Returns whether a function of a family belongs to that family, and not to another library with a
// function of that name. The version is the one that the caller was linked with: a library that
// replaces another keeps its versions.
static bool is_of_family(uint16_t pattern, const char *version, const struct sosc_loaded *callee)
{
	return !callee || (version && pattern_matches(pattern, version)) ||
	       pattern_matches(pattern, callee->name);
}

// Returns the entry that soscope has added for @symbol since the session began, or NULL.
static const struct sosc_function *added(const uint8_t *base, const char *symbol, uint32_t hash)
{
	const struct sosc_function_table *table = (const void *)base;
	uint32_t more = __atomic_load_n(&table->more, __ATOMIC_ACQUIRE);

	for (; more; more = table->more) {
		const struct sosc_function *cells;
		uint32_t mask;

		table = (const void *)(base + more);
		cells = (const void *)(base + table->cells);
		mask = (1u << table->bits) - 1;
		for (uint32_t i = hash >> 4 & mask, left = mask + 1; left && cells[i].name;
		     i = (i + 1) & mask, left--)
			if (cells[i].hash == hash &&
			    sosc_same((const char *)base + cells[i].name, symbol))
				return &cells[i];
	}
	return NULL;
}

// Returns whether @known is "SYMBOL@VERSION".
static bool is_version(const char *known, const char *symbol, const char *version)
{
	while (*symbol && *known == *symbol)
		known++, symbol++;
	return !*symbol && *known == '@' && sosc_same(known + 1, version);
}

// Returns the entry for one version of a function, or NULL.
static const struct sosc_function *of_version(const struct sosc_function_table *table,
					      const char *symbol, uint32_t hash,
					      const char *version)
{
	const char *base = (const void *)table;
	const struct sosc_function *cells = (const void *)(base + table->cells);
	uint32_t mask = (1u << table->bits) - 1;

	if (!version || !(table->versioned >> (hash & 31) & 1))
		return NULL;
	hash = hash * 33 + '@';
	for (const char *at = version; *at; at++)
		hash = hash * 33 + (uint8_t)*at;
	for (uint32_t i = hash >> 4 & mask, left = mask + 1; left; i = (i + 1) & mask, left--) {
		if (!cells[i].name)
			break;
		if (cells[i].hash == hash && is_version(base + cells[i].name, symbol, version))
			return &cells[i];
	}
	return NULL;
}

static void look_up_function(const struct sosc_plan *plan, const char *symbol, uint32_t hash,
			     const char *version, const struct sosc_loaded *callee,
			     struct sosc_chosen *chosen)
{
	const uint8_t *base = (const uint8_t *)sosc_section(SOSC_SEC_FUNCTIONS) + plan->functions;
	const struct sosc_function_table *table = (const void *)base;
	const struct sosc_function *cells = (const void *)(base + table->cells);
	const struct sosc_function_glob *globs = (const void *)(base + table->globs);
	const struct sosc_function *later;
	uint32_t mask = (1u << table->bits) - 1, treatment = 0;
	const struct sosc_function *version_of = of_version(table, symbol, hash, version);
	bool is_foreign = false;

	chosen->unknown = chosen->asked = false;
	if (version_of) {
		chosen->function = version_of;
		chosen->flags = version_of->flags;
		return;
	}
	chosen->function = (const void *)(base + table->default_function);
	for (uint32_t i = hash >> 4 & mask, left = mask + 1; left; i = (i + 1) & mask, left--) {
		if (!cells[i].name)
			break;
		if (cells[i].hash == hash && !(is_foreign && cells[i].flags & SOSC_FN_FAMILY) &&
		    sosc_same((const char *)base + cells[i].name, symbol)) {
			uint32_t family = (cells[i].flags & SOSC_FN_FAMILY) >> SOSC_FN_FAMILY_SHIFT;

			chosen->flags = (uint16_t)(treatment | cells[i].flags);
			if (!family || is_of_family(table->family[family], version, callee)) {
				chosen->function = &cells[i];
				return;
			}
			// Only the name tells whether it may be hooked, and whether its return may
			// be observed.
			treatment = cells[i].flags &
				    (SOSC_FN_ENTRY_ONLY | SOSC_FN_NEVER | SOSC_FN_TWICE);
			treatment |= SOSC_FN_FOREIGN;
			is_foreign = true; // a later entry may be for other libraries' functions
		}
	}
	later = added(base, symbol, hash);
	chosen->asked = later && later->flags & SOSC_FN_ASKED;
	chosen->unknown = !later || chosen->asked;
	if (!chosen->unknown)
		chosen->function = later;
	if (is_foreign || !chosen->unknown) {
		chosen->flags = (uint16_t)(treatment | chosen->function->flags);
		return;
	}
	chosen->flags = chosen->function->flags;
	for (uint32_t i = 0; i < table->glob_count; i++)
		if (pattern_matches(globs[i].pattern, symbol)) {
			chosen->flags |= globs[i].flags;
			return;
		}
}

// Returns whether @plan has to see the method tables of @image. Calls within the interpreter itself
// (@own) cross no boundary, so they are seen only if a filter names the interpreter.
static bool sees_methods(const struct sosc_plan *plan, const struct sosc_loaded *image, bool own)
{
	uint32_t count;
	const struct sosc_rule *rule = rules(&count);
	bool names = false;

	if (!(plan->flags & SOSC_PLAN_METHODS))
		return false;
	for (uint32_t i = plan->first_rule; i < count && i < plan->first_rule + plan->rules; i++) {
		if (rule[i].kind != SOSC_RULE_TO)
			continue;
		names = true;
		if (image_rule(&rule[i], image))
			return true;
	}
	return !names && !own;
}

/** Return whether any instrument may want calls through the method tables of @image. */
bool sosc_selects_methods(const struct sosc_loaded *image, bool own)
{
	for (uint32_t i = 0; i < sosc_session->plans; i++)
		if (sees_methods(&sosc_session->plan[i], image, own))
			return true;
	return false;
}

/** The same, for any image. */
bool sosc_selects_any_methods(void)
{
	for (uint32_t i = 0; i < sosc_session->plans; i++)
		if (sosc_session->plan[i].flags & SOSC_PLAN_METHODS)
			return true;
	return false;
}

/**
 * Return whether an instrument wants calls of @symbol in @version (NULL = none) from the image
 * given to sosc_select_image into @callee (NULL = unknown). @choice then has the instruments, and
 * how each treats the function.
 */
bool sosc_select_slot(const char *symbol, const char *version, struct sosc_loaded *callee,
		      struct sosc_choice *choice)
{
	uint32_t hash = 0;

	choice->count = 0;
	for (uint32_t i = 0; *symbol && i < sosc_session->plans; i++) {
		const struct sosc_plan *plan = &sosc_session->plan[i];
		struct sosc_chosen *chosen;

		if (plan->instrument >= SOSC_INSTRUMENT_KINDS ||
		    !sosc_is_chosen(plan, symbol, callee))
			continue;
		if (!choice->count)
			hash = sosc_gnu_hash(symbol);
		chosen = &choice->of[choice->count++];
		chosen->plan = i;
		look_up_function(plan, symbol, hash, version, callee, chosen);
		if (chosen->unknown && sosc_session->head->plan[i].flags & SOSC_PLAN_ASKS &&
		    sosc_ask(selected, callee, symbol, chosen->asked))
			look_up_function(plan, symbol, hash, version, callee, chosen);
	}
	return choice->count;
}

/**
 * The same for a method of @callee, which is the interpreter itself (@own) or one of its
 * extensions. Its name is not a symbol, so soscope is not asked for its types.
 */
bool sosc_select_method(const char *symbol, struct sosc_loaded *callee, bool own,
			struct sosc_choice *choice)
{
	uint32_t hash = sosc_gnu_hash(symbol);

	choice->count = 0;
	for (uint32_t i = 0; i < sosc_session->plans; i++) {
		const struct sosc_plan *plan = &sosc_session->plan[i];
		struct sosc_chosen *chosen;

		if (plan->instrument >= SOSC_INSTRUMENT_KINDS || !sees_methods(plan, callee, own) ||
		    !sosc_is_chosen(plan, symbol, callee))
			continue;
		chosen = &choice->of[choice->count++];
		chosen->plan = i;
		look_up_function(plan, symbol, hash, NULL, callee, chosen);
	}
	return choice->count;
}
