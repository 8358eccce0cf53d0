// SPDX-License-Identifier: Apache-2.0
// shared: children and soscope share the control block. Whatever they have written there, the agent
// ends each search, and neither reads nor writes outside of the block: the plan alone says where that
// is.
#include "host.h"

#include "ring/callsite.h"
#include "ring/chunk.h"
#include "image/image.h"
#include "hook/known.h"
#include "ring/record.h"
#include "base/session.h"
#include "hook/slot.h"

#include <string.h>

enum { CHUNKS = 4, PLAN_MOST = 1 << 20 };

static const uint32_t odd[] = {0,
			       1,
			       SOSC_MAX_SLOTS - 1,
			       SOSC_MAX_SLOTS,
			       SOSC_MAX_SLOTS + 1,
			       SOSC_MAX_CALL_SITES,
			       HOST_STRINGS - 1,
			       HOST_STRINGS,
			       1u << 31,
			       UINT32_MAX - 1,
			       UINT32_MAX};

#define EACH(word)                 \
	(uint32_t which = 0, word; \
	 which < sizeof(odd) / sizeof(*odd) && (word = odd[which], true); which++)

static void add_section(enum sosc_section section, uint64_t size)
{
	void *zeros = calloc(1, size);

	CHECK(zeros);
	host_section(section, zeros, size);
	free(zeros);
}

// A layout that does not fit into what is mapped is refused.
static void refuse_layouts(void)
{
	const struct sosc_plan_head good = *host_plan;
	uint64_t block = 1 << 29;

	for (uint32_t i = 0; i < SOSC_SECTIONS; i++) {
		if (i == SOSC_SEC_COUNTS)
			continue; // the last ones are mapped later
		host_plan->section[i].offset = block;
		host_plan->section[i].size = 1;
		CHECK(!sosc_session_begin(block, host_plan, PLAN_MOST));
		host_plan->section[i] = (struct sosc_range){UINT64_MAX, 2};
		CHECK(!sosc_session_begin(block, host_plan, PLAN_MOST));
		*host_plan = good;
	}
	host_plan->plans = SOSC_PLANS + 1;
	CHECK(!sosc_session_begin(block, host_plan, PLAN_MOST));
	*host_plan = good;
	host_plan->chunks++;
	CHECK(!sosc_session_begin(block, host_plan, PLAN_MOST));
	*host_plan = good;
	host_plan->spare_chunks = host_plan->chunks + 1;
	CHECK(!sosc_session_begin(block, host_plan, PLAN_MOST));
	*host_plan = good;
	host_plan->plan[0].own = (struct sosc_range){block, 1};
	CHECK(!sosc_session_begin(block, host_plan, PLAN_MOST));
	*host_plan = good;
	host_plan->plan[0].given = (struct sosc_range){PLAN_MOST, 1};
	CHECK(!sosc_session_begin(block, host_plan, PLAN_MOST));
	*host_plan = good;
	host_look();
}

static void strings(void)
{
	for
		EACH(at)
		{
			const char *text = sosc_string_at(at);

			CHECK(at < HOST_STRINGS ?
				      text == (const char *)sosc_section(SOSC_SEC_STRINGS) + at :
				      !*text);
			sosc_control->strings = at;
			(void)sosc_string("a name");
		}
	sosc_control->strings = 1;
}

static void call_sites(void)
{
	uint32_t *chains = sosc_section(SOSC_SEC_CALL_SITE_CHAINS);

	for
		EACH(word)
		{
			for (uint32_t i = 0; i < SOSC_CALL_SITE_HEADS + SOSC_MAX_CALL_SITES; i++)
				chains[i] = word; // that of 1 has no end
			sosc_control->call_sites = word;
			for (uint32_t i = 0; i < 8; i++)
				(void)sosc_call_site(0x401000 + which * 64 + i, i);
		}
	sosc_control->call_sites = UINT64_MAX;
	CHECK(sosc_call_site(0x1234, 1) == SOSC_NONE);
}

static void images(void)
{
	struct sosc_image *records = sosc_section(SOSC_SEC_IMAGES);
	struct sosc_loaded image = {.name = "x.so", .path = "/x.so"};

	for
		EACH(word)
		{
			records[0] = (struct sosc_image){.ready = 1, .path = word, .name = word};
			sosc_control->images = word;
			sosc_image_record(&image, 0);
			CHECK(image.index == SOSC_NONE || image.index < SOSC_MAX_IMAGES);
		}
	sosc_control->images = 0;
}

// A chunk is one of the ring, whoever says that another one is next.
static void chunks(void)
{
	uint8_t *ring = sosc_section(SOSC_SEC_RING);

	for
		EACH(index)
		{
			uint8_t *at = (uint8_t *)sosc_chunk_at(index);
			bool is_of_ring = at >= ring && at < ring + CHUNKS * SOSC_CHUNK_SIZE;

			CHECK(is_of_ring == (index < CHUNKS));
		}
}

int main(void)
{
	host_control(SOSC_INSTRUMENT_TRACE, CHUNKS);
	add_section(SOSC_SEC_CALL_SITES, SOSC_MAX_CALL_SITES * sizeof(struct sosc_call_site));
	add_section(SOSC_SEC_CALL_SITE_CHAINS, (SOSC_CALL_SITE_HEADS + SOSC_MAX_CALL_SITES) * 4ul);
	refuse_layouts();
	strings();
	call_sites();
	images();
	chunks();
	return 0;
}
