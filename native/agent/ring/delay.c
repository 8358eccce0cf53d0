// SPDX-License-Identifier: Apache-2.0
// How long threads that could run have waited for a processor.
//
// A thread comes to one hook after another. Between two hooks it can have waited for long only if
// the two lie far apart in time. Then there is time to ask the kernel whether it has switched to
// other threads since, and if so, how long this thread has waited. That time is subtracted from the
// time between the two hooks: the agent's clock stands still meanwhile, for all open calls. A
// thread that sleeps does not wait for a processor, so the time for which a call sleeps remains its
// own time.

#include "ring/delay.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/signals.h"
#include "base/sys.h"
#include "ring/ring.h"
#include "thread/work.h"

enum {
	OUT_OF_THE_WAY = 900, // programs seldom use descriptors with such numbers
	RUSAGE_THREAD = 1,
	SLACK_NS = 1000000, // the clocks differ by up to this
	ROUNDS = 2, // a thread seldom loses its processor several times within microseconds
};

// Stored in `last` until the thread reads the clock: however long that takes, it does not count as
// a long time without a hook.
static const uint64_t AT_HOOK = INT64_MAX;

struct usage { // struct rusage
	uint64_t other[16];
	uint64_t voluntary;
	uint64_t involuntary;
};

static bool count_switches(uint32_t *count)
{
	struct usage usage;

	if (sosc_sys3(SYS_GETRUSAGE, RUSAGE_THREAD, (long)&usage, 0) != 0)
		return false;
	*count = (uint32_t)(usage.voluntary + usage.involuntary);
	return true;
}

static const char *number(const char *at, const char *end, uint64_t *value)
{
	for (*value = 0; at < end && *at >= '0' && *at <= '9'; at++)
		*value = *value * 10 + (uint64_t)(*at - '0');
	return at < end ? at + 1 : at;
}

// Reads for how many ns the thread has waited since it began. The kernel says that at some moment
// between the tscs @begin and @end. Returns false if the kernel does not tell. Other threads may
// close descriptors that they have not opened, so the file gets a high number.
static bool read_waited(uint64_t *waited, uint64_t *begin, uint64_t *end_ticks)
{
	// ns on a processor, ns waited, time slices
	static const char path[] = "/proc/thread-self/schedstat";
	long low = sosc_sys3(SYS_OPEN, (long)path, O_CLOEXEC, 0), fd, got;
	char text[96];
	const char *at = text, *end;
	uint64_t ran, turns;

	if (low < 0)
		return false;
	fd = sosc_sys3(SYS_FCNTL, low, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	if (fd < 0) // the number is beyond the limit of open files
		fd = low;
	else
		(void)sosc_sys3(SYS_CLOSE, low, 0, 0);
	*begin = sosc_ticks();
	got = sosc_sys6(SYS_PREAD64, fd, (long)text, sizeof(text), 0, 0, 0);
	*end_ticks = sosc_ticks();
	(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
	if (got <= 0)
		return false;
	end = text + got;
	at = number(at, end, &ran);
	at = number(at, end, waited);
	(void)number(at, end, &turns);
	return turns; // 0 if the kernel keeps no statistics
}

static void add(uint64_t *shared, uint64_t value)
{
	__atomic_fetch_add(shared, value, __ATOMIC_RELAXED);
}

/**
 * The thread has waited for @ticks in @turns turns. Return the least number of these ticks that lie
 * in @span. Each of the other turns can have taken a little of the time @outside, in which the
 * thread was at hooks.
 */
static uint64_t part_in(uint64_t span, uint64_t ticks, uint64_t turns, uint64_t outside)
{
	uint64_t others = turns > 1 ? (turns - 1) * DELAY_LONG : 0;

	if (others > outside)
		others = outside;
	ticks = ticks > others ? ticks - others : 0;
	return ticks < span ? ticks : span;
}

// Does the same with the kernel's answer. The time from @now on is the agent's. The thread had been
// switched @switches times before the kernel is asked, so a later switch makes the next call ask
// again.
static uint64_t take(struct sosc_thread *thread, uint64_t last, uint64_t now, uint32_t switches)
{
	uint64_t asked = thread->asked, sure = thread->sure, waited, begin, end, rate, ns, ticks;
	uint32_t after = switches, turns;

	if (!read_waited(&waited, &begin, &end) || !count_switches(&after)) {
		add(&sosc_control->delays_unknown, 1);
		return 0;
	}
	rate = sosc_clock_rate(end);
	ns = waited - thread->waited;
	turns = after - thread->switches;
	// If the thread waits behind `begin`, the next answer can contain that wait, too.
	thread->asked = thread->sure = begin;
	thread->waited = waited;
	thread->switches = switches;
	if (!asked || !rate)
		return 0;
	ticks = ns * rate >> SOSC_RATE_BITS;
	if ((int64_t)ns < 0 || ticks > end - asked + (SLACK_NS * rate >> SOSC_RATE_BITS)) {
		add(&sosc_control->delays_unknown, 1); // the numbers belong to another thread
		return 0;
	}
	add(&sosc_control->delayed, ns);
	add(&sosc_control->delays_over, ((end - asked) << SOSC_RATE_BITS) / rate);
	if (ticks <= end - now)
		return 0;
	if (sosc_is_long(now, end)) // it also waited while it asked
		ticks -= end - now;
	return part_in(now - last, ticks, turns, last - sure + end - now);
}

// Returns the ticks between @last and @now for which the thread has waited.
static uint64_t ask(struct sosc_thread *thread, uint64_t last, uint64_t now)
{
	uint64_t before, ticks = 0;
	uint32_t switches;

	if (sosc_is_sealed(thread) || !count_switches(&switches)) {
		add(&sosc_control->delays_unknown, 1);
		return 0;
	}
	if (thread->asked && switches == thread->switches) {
		thread->sure = now;
		return 0;
	}
	// a signal handler would ask as well, and subtract the same time again
	if (!sosc_signals_hold(sosc_is_sealed(thread), &before))
		return 0;
	if (count_switches(&switches))
		ticks = take(thread, last, now, switches);
	sosc_signals_release(&before);
	return ticks;
}

/**
 * Since @start @thread has done work that is not part of any call's time. If it waited for a
 * processor meanwhile, that wait is not part of it either.
 */
void sosc_delay_ours(struct sosc_thread *thread, uint64_t start)
{
	uint32_t switches;

	for (int i = 0; i < ROUNDS && thread->asked && sosc_is_long(start, sosc_ticks()); i++) {
		start = sosc_ticks();
		if (sosc_is_sealed(thread) || !count_switches(&switches))
			return;
		if (switches == thread->switches) {
			thread->sure = start; // it took long, but the thread did not wait
			return;
		}
		thread->asked = 0;
		(void)ask(thread, start, start);
	}
}

// Lets the clock of @thread stand still for @ticks after @last. A unit records that as soon as the
// thread can write one. A hook that has already taken another unit cannot. Each nested entry may
// owe such a unit, and a call's exit has to tell the wait before the call from the wait inside it.
// If more entries in a row owe a unit than there is room for, the last one has the rest of the
// ticks.
static void stand_still(struct sosc_thread *thread, uint64_t last, uint64_t ticks)
{
	struct sosc_owed *owed = thread->owed;

	thread->overhead += ticks;
	thread->taken += ticks;
	if (!sosc_session->chunks)
		return;
	while (owed->ticks && owed + 1 < thread->owed + THREAD_OWED)
		owed++;
	if (!owed->ticks)
		owed->since = last;
	owed->ticks += ticks;
}

static void write_owed(struct sosc_thread *thread)
{
	for (int i = 0; i < THREAD_OWED; i++) {
		uint64_t since = thread->owed[i].since, ticks = thread->owed[i].ticks;
		struct sosc_overhead *unit;

		if (!ticks)
			continue;
		unit = (void *)sosc_ring_reserve(thread, SOSC_UNIT, SOSC_LOSS_NOTHING);
		thread->owed[i].ticks = 0;
		if (!unit)
			continue;
		unit->tsc = since;
		unit->ticks = ticks;
		__atomic_store_n(&unit->commit, (uint32_t)SOSC_UNIT_OVERHEAD << 28,
				 __ATOMIC_RELEASE);
	}
}

// Returns the time when the last hook ended, 0 before the first one. An entry that owes a unit
// leaves 0 in `last`.
static uint64_t last_hook(const struct sosc_thread *thread)
{
	return thread->last ? thread->last : thread->entered;
}

// Lets the clock stand still for the time that @thread has waited since @last, and for the time
// that asking takes.
static void pass(struct sosc_thread *thread, uint64_t last)
{
	uint64_t now = sosc_ticks(), ticks;

	if (last < thread->sure)
		last = thread->sure;
	if (!last)
		last = now; // the thread's first hook
	ticks = ask(thread, last, now);
	sosc_cost_account(thread, &sosc_control->took_asking, sosc_ticks_since(now));
	if (ticks || !sosc_session->chunks || sosc_is_long(now, sosc_ticks())) {
		sosc_delay_ours(thread, now);
		stand_still(thread, last, ticks + sosc_ticks() - now);
	}
}

/** @thread was at no hook for long, and the clock has to be read again. Called from assembly. */
void sosc_delay_passed(const void *unused, struct sosc_thread *thread)
{
	(void)unused;
	if (thread->ready) { // else a child that was forked just now
		write_owed(thread); // from before the last entry
		pass(thread, last_hook(thread));
		write_owed(thread);
	}
	thread->last = AT_HOOK;
}

/** Return the time of an exit, for which the clock was read at @now. */
uint64_t sosc_delay_at_exit(struct sosc_thread *thread, uint64_t now)
{
	if (sosc_is_long(thread->last, now)) {
		sosc_delay_passed(NULL, thread);
		now = sosc_ticks();
	}
	thread->last = now;
	return now;
}

/**
 * Return the time of an entry of @thread, which was at no hook for long and has already taken a
 * unit.
 */
uint64_t sosc_delay_at_entry(const void *unused, struct sosc_thread *thread)
{
	uint64_t now;

	(void)unused;
	if (thread->ready)
		pass(thread, last_hook(thread));
	now = sosc_ticks();
	thread->entered = now;
	// with 0 the next exit calls sosc_delay_at_exit, too
	thread->last = thread->owed[0].ticks ? 0 : now;
	return now;
}

/** Return the ticks to subtract from the calling thread's calls that were open at @last. */
uint64_t sosc_delay_of_prof(uint64_t last)
{
	struct sosc_thread *thread = sosc_thread_self();
	uint64_t ticks;

	if (!thread)
		return 0;
	write_owed(thread);
	pass(thread, last);
	write_owed(thread);
	ticks = thread->taken - thread->told;
	thread->told = thread->taken;
	return ticks;
}
