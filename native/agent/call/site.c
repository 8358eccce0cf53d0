// SPDX-License-Identifier: Apache-2.0
// Return trampolines: one for each (return address, cell). It is made when the call site is first
// seen and never freed: a stale copy of its address anywhere, in a jmp_buf or in the saved stack of
// a coroutine, still returns to the right place.

#include "call/site.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "call/cell.h"
#include "call/handler.h"
#include "image/image.h"
#include "ring/callsite.h"
#include "ring/delay.h"
#include "ring/ring.h"
#include "thread/counts.h"
#include "thread/thread.h"

enum {
	BUCKET_BITS = 13,
	BUCKETS = 1 << BUCKET_BITS,
	DEPTH_MAX = 8, // longest chain of tail calls that still get a trampoline
};

uint64_t sosc_hints[1 << HINT_BITS];

// The newest site of each bucket, 0 = none, and for each site the site before it. The table is
// small because all its pages are soon touched, and the target pays for them.
static uint32_t buckets[BUCKETS];
static uint32_t older[SOSC_MAX_SITES];

// A page of trampolines belongs to one instrument for ever, as all its trampolines share one exit
// handler.
enum { PAGES = SOSC_MAX_SITES / SOSC_SITES_PER_PAGE };
static uint8_t page_of[PAGES]; // enum sosc_instrument_kind
static uint32_t next_page; // the first page stays empty, because site 0 means no site
// next site in the instrument's current page, 0 = no page yet
static uint32_t next_sites[SOSC_INSTRUMENT_KINDS];
static uint32_t made_count; // number of sites made by this process
static uint32_t spare_pages[SOSC_INSTRUMENT_KINDS]; // pages left over from lost races, 0 = none

static uint64_t code_of(uint32_t index)
{
	return (uint64_t)sosc_sites + (uint64_t)index * SOSC_SITE_SIZE;
}

static uint64_t mix(uint64_t ret, const struct sosc_cell *cell)
{
	return (ret ^ (uint64_t)cell >> 3) * HINT_FACTOR;
}

// Returns the end of the sites in use, as also stored for soscope.
static uint32_t sites_end(void)
{
	uint32_t pages = __atomic_load_n(&next_page, __ATOMIC_RELAXED);

	if (pages <= 1)
		return 1; // no sites
	return pages < PAGES ? pages * SOSC_SITES_PER_PAGE : SOSC_MAX_SITES;
}

static void set_exit(uint32_t page)
{
	sosc_sitedata[(page + 1) * SOSC_SITES_PER_PAGE - 1].ret =
		sosc_exit_handler_of(page_of[page]);
}

/** A session begins. The trampolines of earlier sessions stay as they are. */
void sosc_sites_init(void)
{
	for (uint32_t i = 0; i < 1u << HINT_BITS; i++)
		sosc_hints[i] = code_of(0); // site 0, whose data matches no call
	if (!next_page)
		next_page = 1;
	for (uint32_t page = 1; page < next_page && page < PAGES; page++)
		set_exit(page);
	sosc_inside.site_count = sites_end();
}

// Returns a new page for the instrument, or 0.
static uint32_t take_page(uint32_t kind)
{
	uint32_t page = __atomic_exchange_n(&spare_pages[kind], 0, __ATOMIC_RELAXED);

	if (page)
		return page;
	if (__atomic_load_n(&next_page, __ATOMIC_RELAXED) >= PAGES)
		return 0;
	page = __atomic_fetch_add(&next_page, 1, __ATOMIC_RELAXED);
	if (page >= PAGES)
		return 0;
	page_of[page] = (uint8_t)kind;
	set_exit(page);
	__atomic_store_n(&sosc_inside.site_count, sites_end(), __ATOMIC_RELAXED);
	return page;
}

// Returns the index of a new site of the instrument, or 0.
static uint32_t take(uint32_t kind)
{
	uint32_t *next = &next_sites[kind], at = __atomic_load_n(next, __ATOMIC_RELAXED);

	for (;;) {
		uint32_t page, index = at;

		if (at % SOSC_SITES_PER_PAGE == SOSC_SITES_PER_PAGE - 1 || !at) {
			page = take_page(kind);
			if (!page)
				return 0;
			index = page * SOSC_SITES_PER_PAGE;
		} else {
			page = 0;
		}
		if (__atomic_compare_exchange_n(next, &at, index + 1, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			__atomic_fetch_add(&made_count, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&sosc_control->sites, 1, __ATOMIC_RELAXED);
			return index;
		}
		if (page) // another thread or a signal handler was faster
			__atomic_store_n(&spare_pages[kind], page, __ATOMIC_RELAXED);
	}
}

/**
 * Return the final return address of a call that returns to @addr in a return trampoline. Return 0
 * if @addr is in no return trampoline.
 */
uint64_t sosc_site_returns_to(uint64_t addr)
{
	const uint64_t size = (uint64_t)SOSC_MAX_SITES * SOSC_SITE_SIZE;
	uint64_t ret = 0;

	for (int depth = 0; depth <= DEPTH_MAX + SOSC_PLANS; depth++) {
		uint64_t at = addr - (uint64_t)sosc_sites;

		if (at >= size)
			return ret;
		addr = ret = sosc_sitedata[at / SOSC_SITE_SIZE].ret;
	}
	return 0;
}

// Returns how many tail calls have led to this return address.
static uint32_t depth_of(uint64_t ret)
{
	uint64_t at = ret - (uint64_t)sosc_sites;

	if (at >= (uint64_t)SOSC_MAX_SITES * SOSC_SITE_SIZE)
		return 0;
	return sosc_sitedata[at / SOSC_SITE_SIZE].depth + 1u;
}

/**
 * Return whether a call of @cell that returns to @ret is a tail call, made by a call that the same
 * instrument sees. Return trampolines of other instruments for the same slot belong to this call
 * itself.
 */
bool sosc_is_tail_called(uint64_t ret, const struct sosc_cell *cell)
{
	const struct sosc_layer *layer = &sosc_layers[sosc_cell_index(cell)];

	for (uint32_t i = 0; depth_of(ret) && i < SOSC_PLANS; i++) {
		const struct sosc_site *site =
			&sosc_sitedata[(ret - (uint64_t)sosc_sites) / SOSC_SITE_SIZE];
		const struct sosc_layer *before =
			&sosc_layers[sosc_cell_index((const void *)site->cell)];

		if (before->addr != layer->addr || before->instrument == layer->instrument)
			return true;
		ret = site->ret;
	}
	return false;
}

static bool asks_for_durations(void)
{
	const struct sosc_plan *plan = sosc_plan_in(sosc_session, SOSC_INSTRUMENT_TRACE);

	return !plan || !(plan->flags & SOSC_PLAN_NO_DURATIONS);
}

// Returns an address just behind code of the calling function. After a tail call the return address
// belongs to the enclosing call, so this returns an address in the function that made the tail
// call. Trampolines of PROF are skipped, because their cells know only the hook.
static uint64_t caller_of(uint64_t ret)
{
	while (depth_of(ret)) {
		const struct sosc_site *around =
			&sosc_sitedata[(ret - (uint64_t)sosc_sites) / SOSC_SITE_SIZE];
		struct sosc_cell *cell = (void *)around->cell;

		if (sosc_layers[sosc_cell_index(cell)].instrument != SOSC_INSTRUMENT_PROF)
			return __atomic_load_n(&cell->original, __ATOMIC_RELAXED) + 1;
		ret = around->ret;
	}
	return ret;
}

static bool is_counted(uint32_t slot)
{
	uint32_t instrument = sosc_layers[slot].instrument;

	return (instrument == SOSC_INSTRUMENT_COUNT || instrument == SOSC_INSTRUMENT_STATS) &&
	       sosc_counts_callers();
}

// Fills in what an exit of this cell's function, to @ret, has to do.
static void describe(struct sosc_site *site, uint64_t ret, uint32_t slot)
{
	const struct sosc_function *function = sosc_layers[slot].function;
	uint16_t flags = function ? function->flags : 0;
	uint32_t number = SOSC_NONE;

	site->rule = function ? function->error_rule : 0;
	site->ns = sosc_layers[slot].ns;
	site->flags = 0;
	if (flags & SOSC_FN_EXIT_PROGRAM && sosc_layers[slot].instrument == SOSC_INSTRUMENT_TRACE)
		site->flags |= SITE_FLAG_PROGRAM;
	if (flags & SOSC_FN_TWICE)
		site->flags |= SITE_FLAG_TWICE;
	site->open = 0;
	if (is_counted(slot)) {
		number = sosc_call_site(caller_of(ret), slot);
		if (number != SOSC_NONE)
			site->open = (SOSC_MAX_SLOTS + number - slot) * sizeof(struct sosc_cell);
		return;
	}
	if (sosc_layers[slot].instrument == SOSC_INSTRUMENT_TRACE && !site->flags)
		number = sosc_call_site(ret, slot);
	if (number != SOSC_NONE && flags & SOSC_FN_BRIEF && !asks_for_durations())
		site->flags |= SITE_FLAG_BRIEF;
	if (number != SOSC_NONE)
		site->open = (uint32_t)SOSC_UNIT_OPEN << 28 | number << SOSC_TICKS_LOW;
}

static uint32_t make(uint64_t ret, struct sosc_cell *cell, uint32_t depth)
{
	uint32_t index = take(sosc_layers[sosc_cell_index(cell)].instrument);
	struct sosc_site *site = &sosc_sitedata[index];

	if (!index)
		return 0;
	site->cell = (uint64_t)cell;
	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	describe(site, ret, sosc_cell_index(cell));
	site->depth = (uint8_t)depth;
	__atomic_store_n(&site->ret, ret, __ATOMIC_RELEASE);
	return index;
}

/**
 * Slots of earlier sessions have been hooked again: adapt their trampolines to this session. Exits
 * of calls whose entry an earlier session saw are not recorded.
 */
void sosc_sites_refresh(void)
{
	for (uint32_t i = SOSC_SITES_PER_PAGE, end = sites_end(); i < end; i++) {
		struct sosc_site *site = &sosc_sitedata[i];
		struct sosc_cell *cell = (void *)site->cell;

		if (i % SOSC_SITES_PER_PAGE == SOSC_SITES_PER_PAGE - 1 || !cell)
			continue;
		if (sosc_layers[sosc_cell_index(cell)].session != sosc_inside.sessions) {
			site->flags = SITE_FLAG_OLD;
			site->open = 0;
			continue;
		}
		site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
		describe(site, site->ret, sosc_cell_index(cell));
	}
}

static uint32_t search(uint32_t newest, uint32_t end, uint64_t ret, const struct sosc_cell *cell)
{
	for (uint32_t i = newest; i != end; i = older[i])
		if (sosc_sitedata[i].ret == ret && sosc_sitedata[i].cell == (uint64_t)cell)
			return i;
	return 0;
}

// Lock-free and safe in signal handlers. A complete site is put in front of its bucket and never
// removed. A lost race wastes one trampoline.
static __attribute__((noinline)) uint64_t find_or_make(uint64_t hash, uint64_t ret,
						       struct sosc_cell *cell)
{
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
		older[made] = newest;
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
 * Return the return trampoline for a call of @cell that returns to @ret. Return 0 if the table is
 * full, or if the chain of tail calls is too long.
 */
uint64_t sosc_site_find(uint64_t ret, struct sosc_cell *cell)
{
	uint64_t hash = mix(ret, cell);
	uint64_t hint = __atomic_load_n(&sosc_hints[hash >> (64 - HINT_BITS)], __ATOMIC_ACQUIRE);
	const struct sosc_site *site = (void *)(hint + SOSC_DISTANCE);

	if (site->ret == ret && site->cell == (uint64_t)cell)
		return hint;
	return find_or_make(hash, ret, cell);
}

/**
 * The image behind @cell has been loaded again, and its calls go to @original now. No thread runs
 * its code yet.
 */
void sosc_sites_retarget(struct sosc_cell *cell, uint64_t original)
{
	for (uint32_t i = SOSC_SITES_PER_PAGE, end = sites_end(); i < end; i++)
		if (sosc_sitedata[i].cell == (uint64_t)cell)
			sosc_sitedata[i].original = original;
}

/**
 * The time since @start was taken by the agent: record that before the clock is read for the call.
 */
void sosc_account(struct sosc_thread *thread, uint64_t start)
{
	struct sosc_overhead *unit;
	uint64_t ticks;

	sosc_delay_ours(thread, start);
	ticks = sosc_ticks() - start;
	thread->overhead += ticks;
	if (!sosc_session->chunks)
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
	uint32_t before = made_count;
	// without this need the program may have forbidden to read the clock
	bool is_timed = sosc_needs & SOSC_NEEDS_CLOCK;
	uint64_t start = is_timed ? sosc_ticks() : 0;
	uint64_t site = sosc_site_find(ret, cell);

	if (is_timed && made_count != before)
		sosc_account(thread, start);
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
