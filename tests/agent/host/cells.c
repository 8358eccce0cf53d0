// SPDX-License-Identifier: Apache-2.0
// cells: a slot has the same cell of its own each time, however many slots there are, until none is left.
#include "host.h"

#include "call/cell.h"

enum { MANY = 100000, KINDS = 4, TURNS = 5 };

static uint8_t owner[SOSC_MAX_SLOTS];
static uint32_t first[MANY];

static uint64_t addr_of(uint32_t number)
{
	return 0x7f0000000000ull + number * 24ull;
}

static uint32_t cell_of(uint32_t number)
{
	return sosc_cell_of(addr_of(number / KINDS), (enum sosc_cell_use)(1 + number % KINDS));
}

int main(void)
{
	uint32_t given, none = 0;

	host_control(SOSC_INSTRUMENT_COUNT, 1)->slots = 100;
	for (uint32_t i = 0; i < MANY; i++) {
		first[i] = cell_of(i);
		CHECK(first[i] != SOSC_NONE && !owner[first[i]]++);
	}
	for (uint32_t turn = 0; turn < TURNS; turn++)
		for (uint32_t i = 0; i < MANY; i++)
			CHECK(cell_of(i) == first[i]);
	given = sosc_cell_take(); // between those that belong to somebody
	CHECK(given != SOSC_NONE && !owner[given]++);
	sosc_cell_give(given);
	CHECK(sosc_cell_take() == given);
	for (uint32_t i = MANY; i < 2 * SOSC_MAX_SLOTS; i++) {
		uint32_t cell = cell_of(i);

		none += cell == SOSC_NONE;
		CHECK(cell == SOSC_NONE || (!owner[cell]++ && !sosc_cell_is_free(cell)));
	}
	CHECK(none && sosc_cell_is_free(100) && cell_of(MANY / 2) == first[MANY / 2]);
	for (uint32_t i = 101; i < SOSC_MAX_SLOTS - 1; i++)
		CHECK(owner[i]); // all are in use
	return 0;
}
