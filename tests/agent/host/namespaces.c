// SPDX-License-Identifier: Apache-2.0
// namespaces LIBRARY: lists of images as glibc chains them, and as its older versions keep
// them in _rtld_global, which LIBRARY has in the size of 2.31's.
#include "host.h"

#include "image/image.h"
#include "image/namespace.h"

#include <dlfcn.h>
#include <string.h>

enum { DL_NNS = 16, BRK = 0x1234, MAPS = 4 };

static struct {
	struct r_debug debug;
	void *next;
} chain[DL_NNS + 4];
static struct link_map maps[MAPS];
static struct sosc_namespace found[SOSC_NAMESPACES];

static struct link_map *listed(void)
{
	for (int i = 0; i + 1 < MAPS; i++)
		maps[i].l_next = &maps[i + 1];
	return &maps[0];
}

static void chained(void)
{
	chain[0].debug = (struct r_debug){.r_version = 1, .r_map = listed(), .r_brk = BRK};
	chain[0].next = &chain[1]; // not there before version 2
	sosc_namespaces_init(&chain[0].debug, NULL);
	CHECK(sosc_namespaces(found) == 1 && found[0].first == &maps[0] && found[0].consistent);
	for (int i = 0; i < DL_NNS + 3; i++) {
		chain[i].debug.r_version = 2;
		chain[i].debug.r_state = i % 3;
		chain[i].debug.r_map = i == 5 ? NULL : &maps[i % MAPS];
		chain[i].next = &chain[i + 1];
	}
	chain[2].next = NULL;
	CHECK(sosc_namespaces(found) == 3);
	for (int i = 0; i < 3; i++)
		CHECK(found[i].first == &maps[i] && found[i].consistent == (i % 3 == 0));
	chain[2].next = &chain[3];
	CHECK(sosc_namespaces(found) == DL_NNS); // of a chain that is too long, or closed
	CHECK(!found[5].first && found[6].first == &maps[2]);
}

static void put(uint8_t *at, uint64_t word)
{
	memcpy(at, &word, sizeof(word));
}

// struct link_namespaces: loaded, count; struct r_debug at @debug
static void fill(uint8_t *table, uint64_t stride, uint64_t debug, uint64_t count)
{
	memset(table, 0, 4000);
	put(table, (uint64_t)listed());
	put(table + 8, MAPS);
	put(table + DL_NNS * stride, count);
	for (uint64_t i = 1; i < count; i++) {
		struct r_debug own = {
			.r_version = 1,
			.r_map = &maps[i % MAPS],
			.r_brk = i == 3 ? 0 : BRK, // an index that was never used
			.r_state = i == 2 ? RT_ADD : RT_CONSISTENT,
		};

		put(table + i * stride, (uint64_t)own.r_map);
		memcpy(table + i * stride + debug, &own, sizeof(own));
	}
}

static void tabled(const struct sosc_loaded *loader, uint8_t *table, uint64_t stride,
		   uint64_t debug)
{
	struct r_debug base = {.r_version = 1, .r_map = listed(), .r_brk = BRK};

	fill(table, stride, debug, 5);
	sosc_namespaces_init(&base, loader);
	CHECK(sosc_namespaces(found) >= 5);
	CHECK(found[0].first == &maps[0] && found[1].first == &maps[1] && found[1].consistent);
	CHECK(found[2].first == &maps[2] && !found[2].consistent);
	CHECK(!found[3].first && found[3].consistent && found[4].first == &maps[0]);
	fill(table, stride, debug, 2); // the last ones were closed
	CHECK(sosc_namespaces(found) >= 5);
	CHECK(found[1].first == &maps[1] && !found[2].first && found[2].consistent);
	put(table + 8, MAPS + 1); // not what it should be: the program's own list alone
	sosc_namespaces_init(&base, loader);
	CHECK(sosc_namespaces(found) >= 1 && found[0].first == &maps[0] && !found[1].first);
	fill(table, stride, debug, DL_NNS + 1);
	sosc_namespaces_init(&base, loader);
	(void)sosc_namespaces(found);
	CHECK(!found[1].first);
}

int main(int argc, char **argv)
{
	static struct sosc_loaded loader;
	void *library;
	uint8_t *table;

	CHECK(argc == 2);
	host_control(SOSC_INSTRUMENT_COUNT, 1);
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	CHECK(library && dlinfo(library, RTLD_DI_LINKMAP, &loader.map) == 0);
	table = dlvsym(library, "_rtld_global", "GLIBC_PRIVATE");
	CHECK(table && sosc_image_parse(&loader, NULL) == 0);
	chained();
	tabled(&loader, table, 144, 104);
	tabled(&loader, table, 152, 112);
	return 0;
}
