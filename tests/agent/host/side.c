// SPDX-License-Identifier: Apache-2.0
// Words of the side table, of blocks whose tables have an entry in common and of such as have none.
#include "host.h"

#include "objects/common/side.h"

enum { APART = 20 + 16 }; // bits: MiBs with the same entry

static const uint64_t blocks[] = {
	0x100000, // a MiB's first
	0x1ffff0, // its last
	0x7f0000345670, 0x7f0000345670 ^ 1ull << APART, 0x7f0000345670 ^ 3ull << APART,
	1ull << APART, // has what is not there for a neighbour
};

enum { BLOCKS = sizeof(blocks) / sizeof(*blocks) };

static uint64_t seen;

static void see(uint64_t block, uint32_t *word, void *data)
{
	(void)data;
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (blocks[i] == block && *word == i + 1)
			seen |= 1ull << i;
}

int main(void)
{
	uint32_t *words[BLOCKS];

	sosc_side_begin();
	CHECK(!sosc_side_at(0)); // what is freed may be nothing
	for (uint32_t i = 0; i < BLOCKS; i++) {
		CHECK(!sosc_side_at(blocks[i]) || blocks[i] >> 20 == blocks[i - 1] >> 20);
		words[i] = sosc_side_make(blocks[i]);
		CHECK(words[i] && !*words[i]);
		*words[i] = i + 1;
		CHECK(sosc_side_at(blocks[i]) == words[i]); // and from now on at once
	}
	for (uint32_t i = 0; i < BLOCKS; i++)
		CHECK(sosc_side_at(blocks[i]) == words[i] && *words[i] == i + 1);
	CHECK(!sosc_side_at(0) && !sosc_side_at(0x7f0000345670 ^ 5ull << APART));
	sosc_side_each(see, NULL);
	CHECK(seen == (1ull << BLOCKS) - 1);
	return 0;
}
