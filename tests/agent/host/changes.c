// SPDX-License-Identifier: Apache-2.0
// The journal of changed words: what is noted, what images that are gone leave.

#include "host.h"

#include "image/changes.h"
#include "image/image.h"

static uint64_t words[64];

int main(void)
{
	struct sosc_loaded *one = &sosc_loaded[3], *other = &sosc_loaded[4];
	uint64_t kept = 0;

	for (uint64_t i = 0; i < 64; i++) {
		words[i] = i;
		CHECK(sosc_change_word(i % 2 ? one : other, (uint64_t)&words[i], 1000 + i));
		CHECK(words[i] == 1000 + i);
	}
	CHECK(sosc_inside.change_count == 64);
	CHECK(sosc_change_note(one, (uint64_t)&words[0], 7, 7, 8)); // no change is none
	CHECK(sosc_inside.change_count == 64);

	sosc_changes_forget(one);
	CHECK(sosc_inside.change_count == 63); // the last one was its
	for (uint64_t i = 0; i < sosc_inside.change_count; i++) {
		const struct sosc_change *change = &sosc_changes[i];

		CHECK(i % 2 ? !change->addr : change->addr == (uint64_t)&words[i]);
		CHECK(i % 2 || (change->before == i && change->after == 1000 + i));
	}

	// full: what is gone makes room, then there is none
	while (sosc_change_note(other, (uint64_t)&words[1], 1, 2, 4))
		kept++;
	CHECK(sosc_inside.change_count == SOSC_MAX_CHANGES);
	CHECK(kept == SOSC_MAX_CHANGES - 32);
	CHECK(sosc_changes[31].addr == (uint64_t)&words[62]);
	CHECK(!sosc_change_word(other, (uint64_t)&words[2], 5));
	CHECK(words[2] == 1002); // left alone
	sosc_changes_forget(other);
	CHECK(!sosc_inside.change_count);
	return 0;
}
