// SPDX-License-Identifier: Apache-2.0
// A process that runs already is hooked in turns of some milliseconds, and goes on in
// between: soscope stops it again and again, where the loader is idle. Images that come
// meanwhile are hooked by the thread that loads them, as ever.

#include "hook/turns.h"
#include "base/clock.h"
#include "base/sys.h"
#include "hook/hook.h"
#include "hook/methods.h"
#include "image/changes.h"
#include "image/image.h"

static struct sosc_hooking work; // of the image that a turn has ended in

/** Another session begins; the last one's turns may not have come to their end. */
void sosc_turns_begin(void)
{
	sosc_hook_forget(&work);
	sosc_inside.waiting = 0;
	sosc_methods_again();
}

/** Take note of how many images are to be hooked in turns. */
void sosc_turns_count(void)
{
	uint64_t left = 0;

	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		left += sosc_loaded[i].map && sosc_loaded[i].waits;
	sosc_inside.waiting = left + (work.image != NULL);
}

/**
 * Whether an image that comes now has to wait for its turn, too: its slots may lead to
 * stubs of a program that is not hooked yet (see sosc_past_canonical).
 */
bool sosc_turns_hold(void)
{
	const struct sosc_loaded *program = &sosc_loaded[0];

	return program->map && (program->waits || work.image == program);
}

/** @image is gone. */
void sosc_turns_forget(const struct sosc_loaded *image)
{
	if (work.image == image)
		sosc_hook_forget(&work);
}

// A soscope that was killed may have left its turns to a child, and another one have
// taken us out: nothing is to be hooked any more.
static void give_up(void)
{
	sosc_hook_forget(&work);
	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		sosc_loaded[i].waits = false;
}

static struct sosc_loaded *next_image(void)
{
	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		if (sosc_loaded[i].map && sosc_loaded[i].waits)
			return &sosc_loaded[i];
	return NULL;
}

static void take_turn(uint64_t until)
{
	struct sosc_loaded *image;

	while (work.image || (image = next_image())) {
		if (!work.image) {
			work.image = image;
			work.scan.image = image;
			work.defers = true;
			image->waits = false;
		}
		if (!sosc_hook_some(&work, until, true) || sosc_is_over(until))
			return;
	}
}

/**
 * Hook for @ns what was there at a start with SOSC_START_TURNS. Called as
 * soscope_agent_start is. Return: how many images are left; sosc_inside.waiting says so, too.
 */
__attribute__((visibility("default"))) long soscope_agent_hook(uint64_t ns)
{
	sosc_is_turn = true;
	if (sosc_control->command == SOSC_COMMAND_STOP)
		give_up();
	else
		take_turn(sosc_clock_ns(CLOCK_MONOTONIC_RAW) + ns);
	sosc_is_turn = false;
	sosc_turns_count();
	return (long)sosc_inside.waiting;
}
