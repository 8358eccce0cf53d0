// SPDX-License-Identifier: Apache-2.0
// stats: what the slow ways of counting and timing add up to: own array and shared one, error
// rules, exits without entry, threads at once.
#include "host.h"

#include "arch.h"
#include "cell.h"
#include "handler.h"
#include "park.h"
#include "site.h"
#include "stats.h"
#include "thread.h"

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
	*parked = (struct sosc_parked){(uint64_t)&frame.regs.ret, (uint64_t)cell, 1000,
				       thread->overhead};
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
		CHECK(total(rule).total == 8 * 10 + 28 && total(rule).min == 11 &&
		      total(rule).max == 17);
	}
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
	odd_ends();
	sosc_quiet = false;
	threads();
	return 0;
}
