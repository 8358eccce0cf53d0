// SPDX-License-Identifier: Apache-2.0
// stats: what the slow ways of counting and timing add up to: own array and shared one, error
// rules, exits without entry, threads at once.
#include "host.h"

#include "base/arch.h"
#include "call/cell.h"
#include "call/handler.h"
#include "thread/park.h"
#include "call/site.h"
#include "stats/stats.h"
#include "thread/thread.h"

#include <pthread.h>

enum { CALLS = 20000, THREADS = 8 };

static struct sosc_function functions[9];

static struct sosc_stats *stats_of(uint32_t array, uint32_t index)
{
	return (struct sosc_stats *)sosc_section(SOSC_SEC_COUNTS) + array * SOSC_MAX_SLOTS + index;
}

static struct sosc_stats total(uint32_t index)
{
	struct sosc_stats sum = {0};

	for (uint32_t array = 0; array < HOST_ARRAYS; array++) {
		const struct sosc_stats *one = stats_of(array, index);

		sum.calls += one->calls;
		sum.returns += one->returns;
		sum.errors += one->errors;
		sum.total += one->total;
		sum.self += one->self;
		if (one->min && (!sum.min || one->min < sum.min))
			sum.min = one->min;
		if (one->max > sum.max)
			sum.max = one->max;
	}
	return sum;
}

// One call of @cell that takes @ticks, as sosc_h_stats and sosc_x_stats would have it.
static void call(struct sosc_cell *cell, uint64_t ticks, uint64_t result)
{
	struct {
		struct sosc_regs regs;
		uint64_t stack[2];
	} frame __attribute__((aligned(16))) = {.regs = {.ret = 0x400000, .rax = result}};
	uint64_t code = sosc_site_find(frame.regs.ret, cell);
	struct sosc_thread *thread = sosc_thread_slow(cell);
	struct sosc_parked *parked;

	CHECK(code && thread);
	sosc_stats_slow(cell);
	parked = sosc_park_slow(cell, thread, (uint64_t)&frame.regs.ret);
	CHECK(parked);
	*parked = (struct sosc_parked){(uint64_t)&frame.regs.ret, (uint64_t)cell,
				       1000 - thread->overhead, thread->done};
	thread->last = 1000;
	frame.regs.r11 = code;
	sosc_stats_exit(&frame.regs, 1000 + ticks);
	CHECK(!sosc_parked_find(thread, (uint64_t)&frame.regs.ret, (uint64_t)cell));
}

// enum sosc_error_rule: results, and which of them are failures
static const uint64_t results[] = {0,	       1,	    0x7fffffff,		0x80000000,
				   0xffffffff, 0x100000000, 0x8000000000000000, UINT64_MAX};
static const uint8_t failures[8] = {0x00, 0x98, 0xc0, 0x01, 0x80, 0x9e, 0x61, 0x90};

static void rules(void)
{
	for (uint32_t rule = 0; rule < 8; rule++) {
		struct sosc_cell *cell = &sosc_cells[rule];

		for (uint32_t i = 0; i < 8; i++) {
			uint64_t before = total(rule).errors;

			call(cell, 10 + i, results[i]);
			CHECK(total(rule).errors - before == (failures[rule] >> i & 1));
		}
		CHECK(total(rule).calls == 8 && total(rule).returns == 8);
		CHECK(total(rule).self == total(rule).total);
		CHECK(total(rule).total == 8 * 10 + 28 && total(rule).min == 11 &&
		      total(rule).max == 17);
	}
}

// Calls that are open, as sosc_h_stats parks them, at addresses of their own.
static struct {
	struct sosc_regs regs;
	uint64_t stack[2];
} frames[8] __attribute__((aligned(16)));

static void enters(int frame, uint32_t index, uint64_t now)
{
	struct sosc_regs *regs = &frames[frame].regs;
	struct sosc_cell *cell = &sosc_cells[index];
	struct sosc_thread *thread = sosc_thread_slow(cell);
	struct sosc_parked *parked;

	regs->ret = 0x400000;
	regs->r11 = sosc_site_find(regs->ret, cell);
	sosc_stats_slow(cell);
	parked = sosc_park_slow(cell, thread, (uint64_t)&regs->ret);
	CHECK(parked);
	*parked = (struct sosc_parked){(uint64_t)&regs->ret, (uint64_t)cell, now, thread->done};
	thread->last = now;
}

static void leaves(int frame, uint64_t now)
{
	frames[frame].regs.rax = 0;
	sosc_stats_exit(&frames[frame].regs, now);
}

static void takes(uint32_t index, uint64_t all, uint64_t self)
{
	struct sosc_stats sum = total(index);

	if (sum.total != all || sum.self != self)
		printf("%u: %lu, of which %lu\n", index, sum.total, sum.self);
	CHECK(sum.total == all && sum.self == self);
	memset(stats_of(1, index), 0, sizeof(struct sosc_stats));
}

// What a call takes itself: without those in it, whatever ends in which order.
static void selves(void)
{
	uint64_t done = sosc_thread_self()->done;

	for (uint32_t i = 0; i < 8; i++)
		memset(stats_of(1, i), 0, sizeof(struct sosc_stats));
	enters(4, 0, 1000); // 0 calls 1 twice, and that calls 2
	enters(3, 1, 1010);
	enters(2, 2, 1015);
	leaves(2, 1018);
	leaves(3, 1030);
	enters(3, 1, 1040);
	leaves(3, 1045);
	leaves(4, 1100);
	takes(2, 3, 3);
	takes(1, 25, 22);
	takes(0, 100, 75);
	enters(4, 3, 2000); // itself
	enters(3, 3, 2010);
	leaves(3, 2040);
	leaves(4, 2100);
	takes(3, 130, 100);
	enters(4, 4, 3000); // 5 never returns: what it took by itself is 4's
	enters(3, 5, 3010);
	enters(2, 6, 3020);
	leaves(2, 3030);
	leaves(4, 3100);
	takes(6, 10, 10);
	takes(5, 0, 0);
	takes(4, 100, 90);
	enters(0, 0, 4000); // two coroutines inside of a call: each tick is somebody's once
	enters(2, 1, 4000);
	enters(6, 2, 4005);
	leaves(2, 4010);
	leaves(6, 4012);
	leaves(0, 4020);
	takes(1, 10, 10);
	takes(2, 7, 0);
	takes(0, 20, 10);
	CHECK(sosc_thread_self()->done - done == 100 + 100 + 100 + 20);
	// another thread's, in a table that they share: no more than all of it
	enters(0, 7, 5000);
	sosc_parked_find(sosc_thread_self(), (uint64_t)&frames[0].regs.ret,
			 (uint64_t)&sosc_cells[7])
		->b += 1000;
	leaves(0, 5030);
	takes(7, 30, 30);
}

// What is called from a call site that has a cell is counted there when it returns.
static void call_sites(void)
{
	struct sosc_site *site = (void *)(sosc_site_find(0x400000, &sosc_cells[0]) + SOSC_DISTANCE);
	struct sosc_stats before = total(2);

	site->open = 2 * sizeof(struct sosc_cell);
	call(&sosc_cells[0], 40, 0);
	site->open = 0;
	CHECK(total(2).returns == before.returns + 1 && total(2).total == before.total + 40);
}

static pthread_barrier_t all;

static void *calls(void *number)
{
	uint64_t me = (uint64_t)number;

	for (uint64_t i = 0; i < CALLS; i++) {
		call(&sosc_cells[8], 100 + me, i % 10 ? 0 : UINT64_MAX);
		if (!i) // none hands its array on before all have looked for one
			pthread_barrier_wait(&all);
	}
	return NULL;
}

// More threads than arrays: the last ones share.
static void threads(void)
{
	pthread_t thread[THREADS];
	struct sosc_stats sum;

	CHECK(pthread_barrier_init(&all, NULL, THREADS) == 0);
	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, calls, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	sum = total(8);
	CHECK(sosc_control->counts_used == HOST_ARRAYS - 1);
	CHECK(stats_of(0, 8)->calls > 0 && stats_of(0, 8)->calls < sum.calls);
	CHECK(sum.calls == THREADS * CALLS && sum.returns == sum.calls);
	CHECK(sum.errors == THREADS * CALLS / 10);
	CHECK(sum.total == (uint64_t)CALLS * (THREADS * 100 + THREADS * (THREADS - 1) / 2));
	CHECK(sum.self == sum.total);
	CHECK(sum.min == 101 && sum.max == 100 + THREADS - 1);
}

static void odd_ends(void)
{
	struct sosc_regs regs = {.ret = 0x400000, .r11 = sosc_site_find(0x400000, &sosc_cells[0])};
	struct sosc_stats before = total(0);
	uint64_t unpaired = sosc_control->dropped[SOSC_DROP_EXIT_UNPAIRED];

	sosc_stats_exit(&regs, 5000); // its entry was not kept
	CHECK(sosc_control->dropped[SOSC_DROP_EXIT_UNPAIRED] == unpaired + 1);
	CHECK(total(0).returns == before.returns);
	sosc_thread_self()->counts = 0;
	sosc_count_slow(&sosc_cells[0]); // this session has no counts
	sosc_cost_inner = 30; // more than the call took: no time at all
	call(&sosc_cells[0], 20, 0);
	CHECK(total(0).total == before.total && total(0).min == 1);
	call(&sosc_cells[0], 50, 0);
	CHECK(total(0).total == before.total + 20);
	sosc_cost_inner = 0;
	sosc_quiet = true; // nobody listens any more: the slot costs a jump
	sosc_cells[0].handler = (uint64_t)sosc_h_call;
	sosc_stats_slow(&sosc_cells[0]);
	CHECK(sosc_cells[0].handler == (uint64_t)sosc_h_jump);
	CHECK(total(0).calls == before.calls + 2);
}

int main(void)
{
	host_control(SOSC_INSTRUMENT_STATS, 1);
	for (uint32_t i = 0; i < 9; i++) {
		functions[i].error_rule = (uint8_t)(i < 8 ? i : SOSC_ERROR_MINUS_ONE);
		host_cell(i, &functions[i]);
	}
	rules();
	selves();
	call_sites();
	odd_ends();
	sosc_quiet = false;
	threads();
	return 0;
}
