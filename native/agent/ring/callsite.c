// SPDX-License-Identifier: Apache-2.0
// Call sites by number, because a unit has no room for both a return address and a result. Followed
// forked children meet the same call sites as their siblings, so they look for an existing number
// first.

#include "ring/callsite.h"

// Returns 0 if a word has no room for the call site.
static uint64_t word_of(uint64_t ret, uint32_t slot)
{
	if (ret >> (64 - SOSC_CALL_SITE_SLOT) || slot + 1 >= 1u << SOSC_CALL_SITE_SLOT)
		return 0;
	return ret << SOSC_CALL_SITE_SLOT | (slot + 1);
}

// Searches the chain from @newest up to, but without, @end (index + 1). Returns SOSC_NONE if no
// call site matches.
static uint32_t search(uint32_t newest, uint32_t end, uint64_t word)
{
	const struct sosc_call_site *sites = sosc_section(SOSC_SEC_CALL_SITES);
	const uint32_t *chains = sosc_section(SOSC_SEC_CALL_SITE_CHAINS);
	uint32_t i = newest, left = SOSC_MAX_CALL_SITES; // a damaged chain may have no end

	while (i && i != end && i <= SOSC_MAX_CALL_SITES && left--) {
		if (sites[i - 1].word == word)
			return i - 1;
		i = chains[SOSC_CALL_SITE_HEADS + i - 1];
	}
	return SOSC_NONE;
}

static uint32_t make(uint64_t word)
{
	uint64_t *used = &sosc_control->call_sites, index;
	struct sosc_call_site *sites = sosc_section(SOSC_SEC_CALL_SITES);

	if (__atomic_load_n(used, __ATOMIC_RELAXED) >= SOSC_MAX_CALL_SITES)
		return SOSC_NONE;
	index = __atomic_fetch_add(used, 1, __ATOMIC_ACQ_REL);
	if (index >= SOSC_MAX_CALL_SITES)
		return SOSC_NONE;
	__atomic_store_n(&sites[index].word, word, __ATOMIC_RELEASE);
	return (uint32_t)index;
}

// Finds a call site that another process may have made, or makes it.
static uint32_t find_or_make(uint64_t word)
{
	uint32_t *chains = sosc_section(SOSC_SEC_CALL_SITE_CHAINS), seen = 0, made = SOSC_NONE;
	uint32_t *head = &chains[(word * HINT_FACTOR >> 32) % SOSC_CALL_SITE_HEADS];
	uint32_t newest = __atomic_load_n(head, __ATOMIC_ACQUIRE);

	for (;;) {
		uint32_t index = search(newest, seen, word);

		if (index != SOSC_NONE)
			return index;
		if (made == SOSC_NONE)
			made = make(word);
		if (made == SOSC_NONE)
			return SOSC_NONE;
		seen = newest;
		chains[SOSC_CALL_SITE_HEADS + made] = newest;
		if (__atomic_compare_exchange_n(head, &newest, made + 1, false, __ATOMIC_RELEASE,
						__ATOMIC_ACQUIRE))
			return made;
	}
}

/**
 * Return the number of a call site. Return SOSC_NONE if the session keeps no records, has too many
 * call sites, or if a word has no room for this one. Lock-free and safe in signal handlers. A lost
 * race wastes a number.
 */
uint32_t sosc_call_site(uint64_t ret, uint32_t slot)
{
	const struct sosc_range *section = sosc_session->section;
	uint64_t word = word_of(ret, slot);

	if (!word || !section[SOSC_SEC_CALL_SITES].size)
		return SOSC_NONE;
	return section[SOSC_SEC_CALL_SITE_CHAINS].size ? find_or_make(word) : make(word);
}
