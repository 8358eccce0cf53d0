// SPDX-License-Identifier: Apache-2.0
// A running process is hooked in turns of some milliseconds, and runs on in between: soscope stops
// it repeatedly while the loader is idle. Images that are loaded meanwhile are hooked as usual by
// the thread that loads them.

#include "hook/turns.h"
#include "base/clock.h"
#include "base/sys.h"
#include "hook/hook.h"
#include "hook/methods.h"
#include "image/changes.h"
#include "image/image.h"

static struct sosc_hooking work; // the image in which the last turn ended

/** Another session begins. The turns of the last one may not have been completed. */
void sosc_turns_begin(void)
{
	sosc_hook_forget(&work);
	sosc_inside.waiting = 0;
	sosc_methods_again();
}

/** Update the number of images that are still to be hooked in turns. */
void sosc_turns_count(void)
{
	uint64_t left = 0;

	for (uint32_t i = 0; i < sosc_loaded_count; i++)
		left += sosc_loaded[i].map && sosc_loaded[i].waits;
	sosc_inside.waiting = left + (work.image != NULL);
}

/**
 * Return whether an image that is loaded now has to wait for its turn, too: its slots may lead to
 * stubs of a program that is not hooked yet (see sosc_past_canonical).
 */
bool sosc_turns_hold(void)
{
	const struct sosc_loaded *program = &sosc_loaded[0];

	return program->map && (program->waits || work.image == program);
}

/** @image was unloaded. */
void sosc_turns_forget(const struct sosc_loaded *image)
{
	if (work.image == image)
		sosc_hook_forget(&work);
}

// Hooks nothing more. A soscope that was killed may have left its turns to its child, and another
// soscope may have taken the agent out.
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
 * Hook for @ns the images that were loaded at a start with SOSC_START_TURNS. Called in the same way
 * as soscope_agent_start. Return the number of images that are left, also stored in
 * sosc_inside.waiting.
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
