// SPDX-License-Identifier: Apache-2.0
// Return trampolines: one for each (return address, cell), made when the call
// site is first seen and never given up: a stale copy of its address anywhere,
// in a jmp_buf, in a coroutine's saved stack, still returns to the right place.

#include "agent.h"

enum {
	BUCKET_BITS = 14,
	BUCKETS = 1 << BUCKET_BITS,
	DEPTH_MAX = 8, // tail calls behind one another that still get a trampoline
};

uint64_t sosc_hints[1 << HINT_BITS]; // trampolines, by a hash: may be outdated

// The newest site of each bucket, 0 = none; site->next leads to the older ones.
// Small, as every page of it is soon touched: the target pays for it.
static uint32_t buckets[BUCKETS];
static uint32_t next_site;

static uint64_t code_of(uint32_t index)
{
	return (uint64_t)sosc_sites + (uint64_t)index * SOSC_SITE_SIZE;
}

static uint64_t mix(uint64_t ret, const struct sosc_cell *cell)
{
	return (ret ^ (uint64_t)cell >> 3) * HINT_FACTOR;
}

static uint64_t exit_handler(void)
{
	return (uint64_t)(sosc_control->mode == SOSC_MODE_STATS ? sosc_x_stats : sosc_x_call);
}

/** The trampolines of earlier sessions stay what they are. */
void sosc_sites_init(void)
{
	for (uint32_t i = 0; i < 1u << HINT_BITS; i++)
		sosc_hints[i] = code_of(0); // whose data matches no call
	if (!next_site)
		next_site = 1;
	for (uint32_t i = 0; next_site > 1 && i < next_site; i += SOSC_SITES_PER_PAGE)
		sosc_sitedata[i | (SOSC_SITES_PER_PAGE - 1)].ret = exit_handler();
	sosc_inside.site_count = next_site;
}

// An index whose page has its exit pointer, or 0.
static uint32_t take(void)
{
	uint32_t index;

	do {
		if (__atomic_load_n(&next_site, __ATOMIC_RELAXED) >= SOSC_MAX_SITES)
			return 0;
		index = __atomic_fetch_add(&next_site, 1, __ATOMIC_RELAXED);
	} while (index % SOSC_SITES_PER_PAGE == SOSC_SITES_PER_PAGE - 1);
	__atomic_store_n(&sosc_inside.site_count, next_site, __ATOMIC_RELAXED);
	if (index >= SOSC_MAX_SITES)
		return 0;
	__atomic_store_n(&sosc_sitedata[index | (SOSC_SITES_PER_PAGE - 1)].ret, exit_handler(),
			 __ATOMIC_RELAXED);
	__atomic_fetch_add(&sosc_control->sites, 1, __ATOMIC_RELAXED);
	return index;
}

// How many tail calls lie behind this return address.
static uint32_t depth_of(uint64_t ret)
{
	uint64_t at = ret - (uint64_t)sosc_sites;

	if (at >= (uint64_t)SOSC_MAX_SITES * SOSC_SITE_SIZE)
		return 0;
	return sosc_sitedata[at / SOSC_SITE_SIZE].depth + 1u;
}

// What an exit of this cell's function has to do.
static void describe(struct sosc_site *site, uint32_t slot)
{
	const struct sosc_function *function = sosc_hooks[slot].function;
	uint16_t flags = function ? function->flags : 0;

	site->rule = function ? function->error_rule : 0;
	site->ns = (uint8_t)sosc_hooks[slot].ns;
	site->flags = 0;
	if (flags & SOSC_FN_EXIT_PROGRAM && sosc_control->mode == SOSC_MODE_TRACE)
		site->flags |= SITE_FLAG_PROGRAM;
	if (flags & SOSC_FN_TWICE)
		site->flags |= SITE_FLAG_TWICE;
	if (flags & SOSC_FN_VFORK && sosc_control->mode == SOSC_MODE_TRACE)
		site->flags |= SITE_FLAG_VFORK;
}

static uint32_t make(uint64_t ret, struct sosc_cell *cell, uint32_t depth)
{
	uint32_t index = take();
	struct sosc_site *site = &sosc_sitedata[index];

	if (!index)
		return 0;
	site->cell = (uint64_t)cell;
	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	describe(site, sosc_cell_index(cell));
	site->depth = (uint8_t)depth;
	__atomic_store_n(&site->ret, ret, __ATOMIC_RELEASE);
	return index;
}

/**
 * Slots of earlier sessions have been hooked again: their trampolines do what this
 * session wants. Exits of calls that an earlier one saw enter are nobody's.
 */
void sosc_sites_refresh(void)
{
	for (uint32_t i = 1; i < next_site && i < SOSC_MAX_SITES; i++) {
		struct sosc_site *site = &sosc_sitedata[i];
		struct sosc_cell *cell = (void *)site->cell;

		if (i % SOSC_SITES_PER_PAGE == SOSC_SITES_PER_PAGE - 1 || !cell)
			continue;
		if (sosc_hooks[sosc_cell_index(cell)].session != sosc_inside.sessions) {
			site->flags = SITE_FLAG_OLD;
			continue;
		}
		site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
		describe(site, sosc_cell_index(cell));
	}
}

static uint32_t search(uint32_t newest, uint32_t end, uint64_t ret, const struct sosc_cell *cell)
{
	for (uint32_t i = newest; i != end; i = sosc_sitedata[i].next)
		if (sosc_sitedata[i].ret == ret && sosc_sitedata[i].cell == (uint64_t)cell)
			return i;
	return 0;
}

/**
 * The return trampoline for a call of @cell that returns to @ret; 0 where there
 * is none: the table is full, or the call is one of too many tail calls.
 * Lock-free and safe in signal handlers: a site is put in front of its bucket
 * when it is complete and is never taken out; a lost race wastes one trampoline.
 */
uint64_t sosc_site_find(uint64_t ret, struct sosc_cell *cell)
{
	uint64_t hash = mix(ret, cell);
	uint32_t *bucket = &buckets[hash >> (64 - HINT_BITS - BUCKET_BITS) & (BUCKETS - 1)];
	uint32_t newest = __atomic_load_n(bucket, __ATOMIC_ACQUIRE), seen = 0, made = 0;
	uint32_t depth = depth_of(ret), index;

	if (depth > DEPTH_MAX)
		return 0;
	for (;;) {
		index = search(newest, seen, ret, cell);
		if (index)
			break;
		if (!made)
			made = make(ret, cell, depth);
		if (!made) {
			__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_SITES], 1,
					   __ATOMIC_RELAXED);
			return 0;
		}
		seen = newest;
		sosc_sitedata[made].next = newest;
		if (__atomic_compare_exchange_n(bucket, &newest, made, false, __ATOMIC_RELEASE,
						__ATOMIC_ACQUIRE)) {
			index = made;
			break;
		}
	}
	__atomic_store_n(&sosc_hints[hash >> (64 - HINT_BITS)], code_of(index), __ATOMIC_RELAXED);
	return code_of(index);
}

/**
 * The image behind @cell has been loaded again and its calls go to @original
 * now. Nobody runs its code yet.
 */
void sosc_sites_retarget(struct sosc_cell *cell, uint64_t original)
{
	for (uint32_t i = 1; i < next_site && i < SOSC_MAX_SITES; i++)
		if (sosc_sitedata[i].cell == (uint64_t)cell)
			sosc_sitedata[i].original = original;
}

// Time spent here is ours: say so before the call's clock is read.
static void account(struct sosc_thread *thread, uint64_t start)
{
	uint64_t ticks = sosc_rdtsc() - start;
	struct sosc_overhead *unit;

	thread->overhead += ticks;
	if (sosc_control->mode != SOSC_MODE_TRACE)
		return;
	unit = (void *)sosc_ring_reserve(thread, SOSC_UNIT, SOSC_LOSS_NOTHING);
	if (!unit)
		return;
	unit->tsc = start;
	unit->ticks = ticks;
	__atomic_store_n(&unit->commit, (uint32_t)SOSC_UNIT_OVERHEAD << 28, __ATOMIC_RELEASE);
}

uint64_t sosc_site_slow(struct sosc_cell *cell, struct sosc_thread *thread, uint64_t ret)
{
	uint32_t before = next_site;
	uint64_t start = sosc_rdtsc();
	uint64_t site = sosc_site_find(ret, cell);

	if (next_site != before)
		account(thread, start);
	return site;
}

// A lazy slot has been bound since the trampoline was made.
void sosc_site_rebound(uint64_t code)
{
	struct sosc_site *site = (void *)(code + SOSC_DISTANCE);
	struct sosc_cell *cell = (void *)site->cell;
	struct sosc_slot *slot = sosc_slot(sosc_cell_index(cell));
	const struct sosc_loaded *provider;

	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	slot->original = site->original;
	provider = sosc_image_of(site->original);
	if (provider)
		slot->callee = provider->index;
}
