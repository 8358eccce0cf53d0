// SPDX-License-Identifier: Apache-2.0
// Requests of a program that counts its own calls (soscope_mem.trace, Memprof.trace). The program
// has loaded the agent as a library, so there is no session and no control block. All work on slots
// is done in a callback of dl_iterate_phdr, because the loader's lock is held there: no image is
// loaded or unloaded meanwhile.

#include "base/sys.h"
#include "tally/tallyslots.h"

enum { PATIENCE = 100000000 }; // tries to get the lock from a thread that may have been killed

static struct sosc_tally question; // the latest request
static bool is_open;
static uint64_t adds, subs; // the loader's counts of images that were loaded and unloaded
static uint32_t *busy; // lock of the thread that is at work, because not every loader has a lock

static void heed(const struct sosc_tally *tally)
{
	question = *tally;
	sosc_tally_rules.pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	memcpy(&sosc_tally_rules.usable, &question.usable, sizeof(question.usable));
	sosc_tally_rules.has_no_clock = question.flags & 1;
	if (is_open)
		return;
	is_open = true;
	sosc_tally_forget_lefts();
	sosc_tally_peers();
}

// Called by dl_iterate_phdr for the first image only, under the loader's lock.
static int carry_out(struct dl_phdr_info *info, size_t size, void *data)
{
	bool has_counts = size >=
			  offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs);
	bool some_came = !has_counts || info->dlpi_adds != adds;
	bool some_went = !has_counts || info->dlpi_subs != subs;
	struct sosc_tally *tally = data;
	bool was_open = is_open;

	if (!tally && (!is_open || !some_came))
		return 1;
	if (tally && tally->order == SOSC_TALLY_OPEN)
		heed(tally);
	if (some_came || some_went || !was_open)
		sosc_tally_list_images((void *)question.images, question.usable);
	if (tally && tally->order == SOSC_TALLY_CLOSE) {
		sosc_tally_unhook_all(some_went);
		is_open = false;
	} else {
		sosc_tally_hook_all(question.resident, some_went);
	}
	if (has_counts) {
		adds = info->dlpi_adds;
		subs = info->dlpi_subs;
	}
	return 1;
}

// Returns a word that is zero in a forked child, where the thread that is at work does not exist.
static uint32_t *find_busy(void)
{
	static uint32_t usual; // used if there is no memory
	uint32_t *there = __atomic_load_n(&busy, __ATOMIC_ACQUIRE), *mine;

	if (there)
		return there;
	mine = sosc_mmap(NULL, SOSC_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (sosc_mmap_failed(mine))
		mine = &usual;
	else
		(void)sosc_sys3(SYS_MADVISE, (long)mine, SOSC_PAGE, MADV_WIPEONFORK);
	if (__atomic_compare_exchange_n(&busy, &there, mine, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return mine;
	if (mine != &usual)
		(void)sosc_sys3(SYS_MUNMAP, (long)mine, SOSC_PAGE, 0);
	return there;
}

typedef int iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data);

static void under_lock(uint64_t addr, struct sosc_tally *tally)
{
	uint32_t *lock = find_busy();
	iterate *function;

	memcpy(&function, &addr, sizeof(addr));
	for (int i = 0; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) && i < PATIENCE; i++) {
		if (!tally)
			return; // a later call will see the image
		sosc_pause();
	}
	(void)function(carry_out, tally);
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/** An image may have been loaded: hook its slots. */
void sosc_tally_again(void)
{
	if (is_open)
		under_lock(question.iterate, NULL);
}

static void sum_up(const struct sosc_tally *tally)
{
	struct sosc_tally_count *counts = (void *)tally->counts;

	for (uint32_t i = 0; i < tally->count_room && i < TALLY_FUNCTIONS_MAX; i++) {
		uint64_t *to = (uint64_t *)&counts[i];

		memset(to, 0, sizeof(*counts));
		for (uint32_t spread = 0; spread < TALLY_SPREADS; spread++) {
			const uint64_t *from = (const uint64_t *)&sosc_tally_counts[spread][i];

			for (uint32_t word = 0; word < sizeof(*counts) / sizeof(*to); word++)
				to[word] += __atomic_load_n(&from[word], __ATOMIC_RELAXED);
		}
	}
	if (tally->wires)
		memcpy((void *)tally->wires, sosc_tally_wires, sizeof(sosc_tally_wires));
}

/**
 * Serve a request of the program, one thread at a time. Return 0, or -EINVAL if the program uses
 * other layouts than the agent.
 */
__attribute__((visibility("default"))) long soscope_agent_tally(struct sosc_tally *tally)
{
	if (tally->size != sizeof(*tally) || tally->tables != SOSC_TABLES)
		return -EINVAL;
	if (tally->order == SOSC_TALLY_LOOK)
		sum_up(tally);
	else
		under_lock(tally->iterate, tally);
	tally->functions = (uint64_t)sosc_tally_functions(&tally->function_count);
	sosc_tally_tell_slots(tally);
	tally->ticks = tally->flags & 1 ? 0 : sosc_read_counter();
	return 0;
}
