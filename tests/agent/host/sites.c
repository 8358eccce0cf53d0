// SPDX-License-Identifier: Apache-2.0
// sites: one return trampoline for each (return address, cell), for ever; none beyond the
// table's end or a chain of eight tail calls; from several threads at once.
#include "host.h"

#include "call/cell.h"
#include "call/handler.h"
#include "call/site.h"

#include <pthread.h>

enum { THREADS = 4, PAIRS = 4000 };

static uint64_t found[THREADS][PAIRS];

static uint64_t ret_of(uint64_t pair)
{
	return 0x400000 + pair % 1000 * 5;
}

static struct sosc_cell *cell_of(uint64_t pair)
{
	return &sosc_cells[pair / 1000];
}

static struct sosc_site *data_of(uint64_t code)
{
	return (void *)(code + SOSC_DISTANCE);
}

static void *finds(void *number)
{
	uint64_t me = (uint64_t)number;

	for (uint64_t i = 0; i < PAIRS; i++) {
		uint64_t pair = (i * 7 + me * 1000) % PAIRS;

		found[me][pair] = sosc_site_find(ret_of(pair), cell_of(pair));
	}
	return NULL;
}

static void same_for_all(void)
{
	pthread_t threads[THREADS];

	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, finds, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (uint64_t pair = 0; pair < PAIRS; pair++) {
		struct sosc_site *site = data_of(found[0][pair]);

		CHECK(found[0][pair] && found[0][pair] % SOSC_SITE_SIZE == 0);
		for (int i = 1; i < THREADS; i++)
			CHECK(found[i][pair] == found[0][pair]);
		CHECK(site->ret == ret_of(pair) && site->cell == (uint64_t)cell_of(pair));
		CHECK(site->original == cell_of(pair)->original && !site->depth);
		// the last place of each page holds the exit pointer
		CHECK((found[0][pair] & 4095) / SOSC_SITE_SIZE != SOSC_SITES_PER_PAGE - 1);
		CHECK(data_of(found[0][pair] | (SOSC_PAGE - SOSC_SITE_SIZE))->ret ==
		      (uint64_t)sosc_x_call);
	}
}

static void tail_calls(void)
{
	uint64_t ret = 0x500000;

	for (uint32_t depth = 0; depth < 20; depth++) {
		uint64_t code = sosc_site_find(ret, cell_of(0));

		CHECK(!code == (depth > 8));
		if (!code)
			break;
		CHECK(data_of(code)->depth == depth && data_of(code)->ret == ret);
		ret = code;
	}
}

static void retarget(void)
{
	uint64_t code = sosc_site_find(ret_of(1), cell_of(1)), other = found[0][1500];

	sosc_sites_retarget(cell_of(1), 0x1234);
	CHECK(data_of(code)->original == 0x1234 && data_of(other)->original != 0x1234);
	cell_of(1)->original = 0x5678; // bound meanwhile
	sosc_site_rebound(code);
	CHECK(data_of(code)->original == 0x5678);
}

static void until_full(void)
{
	uint64_t ret = 0x700000, made = sosc_control->sites, before;

	while (sosc_site_find(ret, cell_of(3)))
		ret += 5, made++;
	CHECK(made == sosc_control->sites);
	CHECK(made >= SOSC_MAX_SITES - SOSC_MAX_SITES / SOSC_SITES_PER_PAGE - THREADS * PAIRS);
	before = sosc_control->dropped[SOSC_DROP_SITES];
	CHECK(before == 1);
	CHECK(!sosc_site_find(ret + 5, cell_of(3)));
	CHECK(sosc_control->dropped[SOSC_DROP_SITES] == before + 1);
	// those there are, are found
	CHECK(sosc_site_find(ret_of(5), cell_of(5)) == found[0][5]);
	CHECK(sosc_site_find(ret - 5, cell_of(3)));
}

int main(void)
{
	static const struct sosc_function plain;

	host_control(SOSC_INSTRUMENT_TRACE, 1);
	for (uint32_t i = 0; i < 4; i++)
		host_cell(i, &plain);
	same_for_all();
	tail_calls();
	retarget();
	until_full();
	return 0;
}
