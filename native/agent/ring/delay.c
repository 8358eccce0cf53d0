// SPDX-License-Identifier: Apache-2.0
// How long threads that could run have waited for a processor.
//
// A thread is at one of our hooks after another. It can have waited for long only between two that
// lie far apart, and there is time to ask the kernel: whether it has switched to other threads since
// then, and if it has, how long this thread has waited. That is taken out of the time between the
// two hooks: our clock stands still meanwhile, for all calls that are open. A thread that sleeps
// does not wait for a processor: how long a call sleeps is its own time.

#include "ring/delay.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/signals.h"
#include "base/sys.h"
#include "ring/ring.h"
#include "thread/work.h"

enum {
	OUT_OF_THE_WAY = 900, // programs seldom have descriptors with such numbers
	RUSAGE_THREAD = 1,
	SLACK_NS = 1000000, // clocks differ
	ROUNDS = 2, // a thread seldom loses its processor again and again within microseconds
};

// In the place of a thread's `last`, until it reads the clock: however slow it is, that is not long.
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

// For how many ns the thread has waited since it began, at @at_ticks; false: the kernel does not
// tell. Other threads may close what they have not opened: so the file has a number out of their way.
static bool read_waited(uint64_t *waited, uint64_t *at_ticks)
{
	static const char path[] = "/proc/thread-self/schedstat"; // ns it ran, ns it waited, turns
	long low = sosc_sys3(SYS_OPEN, (long)path, O_CLOEXEC, 0), fd, got;
	char text[96];
	const char *at = text, *end;
	uint64_t ran, turns;

	if (low < 0)
		return false;
	fd = sosc_sys3(SYS_FCNTL, low, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	if (fd < 0) // beyond a limit
		fd = low;
	else
		(void)sosc_sys3(SYS_CLOSE, low, 0, 0);
	got = sosc_sys6(SYS_PREAD64, fd, (long)text, sizeof(text), 0, 0, 0);
	*at_ticks = sosc_ticks();
	(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
	if (got <= 0)
		return false;
	end = text + got;
	at = number(at, end, &ran);
	at = number(at, end, waited);
	(void)number(at, end, &turns);
	return turns; // 0: the kernel keeps no account
}

static void add(uint64_t *shared, uint64_t value)
{
	__atomic_fetch_add(shared, value, __ATOMIC_RELAXED);
}

/**
 * Of @ticks, for which the thread has waited in @turns, at least so many are in its last @span. Each
 * of the other turns can have taken a little of the time @before, in which it was at hooks.
 */
static uint64_t part_in(uint64_t span, uint64_t ticks, uint64_t turns, uint64_t before)
{
	uint64_t others = turns > 1 ? (turns - 1) * DELAY_LONG : 0;

	if (others > before)
		others = before;
	ticks = ticks > others ? ticks - others : 0;
	return ticks < span ? ticks : span;
}

// The same of what the kernel says, after some time from @now on that is ours. The thread has been
// switched @switches times before the kernel is asked: who looks for more later asks again.
static uint64_t take(struct sosc_thread *thread, uint64_t last, uint64_t now, uint32_t switches)
{
	uint64_t asked = thread->asked, sure = thread->sure, waited, end, rate, ns, ticks, turns;

	if (!read_waited(&waited, &end)) {
		add(&sosc_control->delays_unknown, 1);
		return 0;
	}
	rate = sosc_clock_rate(end);
	ns = waited - thread->waited;
	turns = switches - thread->switches;
	thread->asked = thread->sure = end;
	thread->waited = waited;
	thread->switches = switches;
	if (!asked || !rate)
		return 0;
	ticks = ns * rate >> SOSC_RATE_BITS;
	if ((int64_t)ns < 0 || ticks > end - asked + (SLACK_NS * rate >> SOSC_RATE_BITS)) {
		add(&sosc_control->delays_unknown, 1); // somebody else's account
		return 0;
	}
	add(&sosc_control->delayed, ns);
	add(&sosc_control->delays_over, ((end - asked) << SOSC_RATE_BITS) / rate);
	if (ticks <= end - now)
		return 0;
	if (sosc_is_long(now, end)) // it waited while it asked, too
		ticks -= end - now;
	return part_in(now - last, ticks, turns, last - sure);
}

// Of the time from @last to @now, the ticks for which the thread has waited.
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
	// a handler would ask as well, and take the same time out once more
	if (!sosc_signals_hold(sosc_is_sealed(thread), &before))
		return 0;
	if (count_switches(&switches))
		ticks = take(thread, last, now, switches);
	sosc_signals_release(&before);
	return ticks;
}

/** Since @start @thread has done what is no call's time: nor is what it waited meanwhile. */
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

// The clock of @thread stands still for @ticks behind @last. A unit says so, as soon as the thread is
// where it can write one: a hook that has taken another unit cannot. Each nested entry may owe one,
// and a call's exit has to tell what was before the call from what was in it. Beyond some entries in
// a row that waited, the last has it all.
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

// When the last hook ended, 0 before the first. An entry that owes a unit leaves 0 in `last`.
static uint64_t last_hook(const struct sosc_thread *thread)
{
	return thread->last ? thread->last : thread->entered;
}

// The clock stands still for what @thread has waited since @last, and for what it takes to ask.
static void pass(struct sosc_thread *thread, uint64_t last)
{
	uint64_t now = sosc_ticks(), ticks;

	if (last < thread->sure)
		last = thread->sure;
	if (!last)
		last = now; // this is the thread's first hook
	ticks = ask(thread, last, now);
	sosc_cost_account(thread, &sosc_control->took_asking, sosc_ticks_since(now));
	if (ticks || !sosc_session->chunks || sosc_is_long(now, sosc_ticks())) {
		sosc_delay_ours(thread, now);
		stand_still(thread, last, ticks + sosc_ticks() - now);
	}
}

/** @thread was at no hook for long: the clock is to be read again. For the assembly. */
void sosc_delay_passed(const void *unused, struct sosc_thread *thread)
{
	(void)unused;
	if (thread->ready) { // else a child, forked just now
		write_owed(thread); // of a time before the last entry
		pass(thread, last_hook(thread));
		write_owed(thread);
	}
	thread->last = AT_HOOK;
}

/** The time of an exit for which the clock was read at @now. */
uint64_t sosc_delay_at_exit(struct sosc_thread *thread, uint64_t now)
{
	if (sosc_is_long(thread->last, now)) {
		sosc_delay_passed(NULL, thread);
		now = sosc_ticks();
	}
	thread->last = now;
	return now;
}

/** The time of an entry of @thread, which was at no hook for long, and has taken a unit by now. */
uint64_t sosc_delay_at_entry(const void *unused, struct sosc_thread *thread)
{
	uint64_t now;

	(void)unused;
	if (thread->ready)
		pass(thread, last_hook(thread));
	now = sosc_ticks();
	thread->entered = now;
	thread->last = thread->owed[0].ticks ? 0 : now; // 0: the next exit comes here, too
	return now;
}

/** The ticks to be taken out of calls that were open at @last, of the thread that asks. */
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
