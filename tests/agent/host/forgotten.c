// SPDX-License-Identifier: Apache-2.0
// forgotten LIBRARY: rules of an image that goes while another thread looks for them. None of them is left,
// and what a guess leads to is not read once the image may be gone.
#include "host.h"

#include "image/image.h"
#include "stack/unwindrules.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 150, CALLS = 200000, CALL_SIZE = 5, SOME = 60 };

static volatile uint64_t first, looks;
static volatile bool is_guessed, is_over;

static void *look(void *unused)
{
	while (!is_over) {
		uint64_t addr = first + CALL_SIZE * (1 + looks % CALLS);

		if (first)
			(void)sosc_rule_of(addr, is_guessed);
		looks++;
	}
	return unused;
}

static void wait_for(uint64_t more)
{
	uint64_t until = looks + more;

	while (looks < until)
		usleep(100);
}

static void check_nothing_is_left(void)
{
	for (uint32_t i = 0; i < 2 << RULE_PAIR_BITS; i++)
		CHECK(!sosc_rules[i]);
}

static void *open_library(const char *path)
{
	struct sosc_loaded *image = &sosc_loaded[0];
	void *library = dlopen(path, RTLD_NOW);
	struct link_map *map;

	CHECK(library && !dlinfo(library, RTLD_DI_LINKMAP, &map));
	memset(image, 0, sizeof(*image));
	image->map = map;
	CHECK(!sosc_image_parse(image, NULL));
	sosc_loaded_count = 1;
	first = (uint64_t)dlsym(library, "many");
	return library;
}

static void forget(void)
{
	sosc_loaded[0].map = NULL;
	sosc_rules_forget();
}

// Its functions are in use elsewhere, so that the image stays where it is; but it is not to be known.
static void check_tables(const char *path)
{
	void *library = open_library(path);
	struct link_map *map = sosc_loaded[0].map;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		sosc_loaded[0].map = map;
		wait_for(SOME);
		forget();
		wait_for(3); // what had begun before is over
		check_nothing_is_left();
	}
	first = 0;
	wait_for(3);
	CHECK(!dlclose(library));
}

static void check_guesses(const char *path)
{
	is_guessed = true;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		void *library = open_library(path);

		wait_for(SOME);
		sosc_rules_hold(true);
		CHECK(!dlclose(library));
		wait_for(3);
		forget();
		check_nothing_is_left();
		sosc_rules_hold(false);
	}
	first = 0;
	wait_for(3);
}

// A rule that is known needs nothing of the image, and neither does a frame that a table leads to.
static void check_held(const char *path)
{
	void *library = open_library(path);
	uint64_t addr = first + CALL_SIZE;
	uint32_t rule = sosc_rule_of(addr, true);

	CHECK(rule);
	sosc_rules_hold(true);
	CHECK(sosc_rule_of(addr, true) == rule && !sosc_rule_of(addr + CALL_SIZE, true));
	CHECK(sosc_rule_interrupted(addr, true) != rule);
	CHECK(sosc_rule_of(addr + CALL_SIZE, false) == rule);
	sosc_rules_hold(false);
	CHECK(sosc_rule_of(addr + 2 * CALL_SIZE, true) == rule);
	CHECK(sosc_rule_interrupted(addr, true) == rule);
	forget();
	CHECK(!dlclose(library));
	first = 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	CHECK(argc == 2);
	(void)host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	check_held(argv[1]);
	CHECK(!pthread_create(&thread, NULL, look, NULL));
	check_tables(argv[1]);
	check_guesses(argv[1]);
	is_over = true;
	CHECK(!pthread_join(thread, NULL));
	return 0;
}
