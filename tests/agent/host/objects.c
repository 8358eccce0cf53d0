// SPDX-License-Identifier: Apache-2.0
// objects: what a process says of its own objects stands at its own place, whatever ids its children have.
#include "host.h"

#include "base/instrument.h"
#include "objects/common/objects.h"
#include "thread/thread.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLACES = 3 };

static struct {
	struct sosc_objects own;
	struct sosc_objects_place places[PLACES + 1]; // the last one is not there
} *shared;

static bool is_refused(uint32_t place, const char *why)
{
	const struct sosc_objects_place *at = &shared->places[place];

	return at->state == SOSC_OBJECTS_REFUSED && !strcmp((const char *)at->text, why);
}

// A child in a PID namespace of its own has its parent's id, if that is the first process of another one.
static void check_child(uint32_t taken)
{
	struct sosc_objects_place before = shared->places[0];
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		shared->places[0].pid = (uint32_t)getpid();
		sosc_objects_refuse(SOSC_OBJECTS_WRONG, "child");
		CHECK(shared->places[0].state == before.state);
		CHECK(!sosc_is_quiet()); // it finds out
		CHECK(taken >= PLACES || is_refused(taken, ""));
		sosc_objects_refuse(SOSC_OBJECTS_WRONG, "later");
		CHECK(taken >= PLACES || is_refused(taken, "later"));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	shared->places[0].pid = before.pid;
	CHECK(!memcmp(&shared->places[0], &before, sizeof(before)));
}

int main(void)
{
	__typeof__(*shared) begins = {
		.own = {.first_place = offsetof(__typeof__(*shared), places), .places = PLACES},
	};

	(void)host_control(SOSC_INSTRUMENT_OBJECTS, 1);
	host_plan->flags = sosc_control->flags = SOSC_FLAG_FOLLOW;
	host_own(&begins, sizeof(begins));
	shared = sosc_own(SOSC_INSTRUMENT_OBJECTS, sizeof(*shared));
	sosc_instruments[SOSC_INSTRUMENT_OBJECTS].start();
	CHECK(shared->own.places_used == 1 && shared->places[0].pid == (uint32_t)getpid());
	for (uint32_t i = 1; i < PLACES + 2; i++) // some find no place
		check_child(i);
	CHECK(!shared->places[PLACES].pid);
	sosc_objects_refuse(SOSC_OBJECTS_NO_CODE, "parent");
	CHECK(is_refused(0, "parent"));
	return 0;
}
