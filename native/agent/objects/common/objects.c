// SPDX-License-Identifier: Apache-2.0
// Counting of live objects: which objects are counted, and the state of the counting (wayin.c has
// the instrument).
//
// All results lie in the process's own memory, and soscope reads them there. When the program ends
// by itself or is about to execute another program, the agent asks soscope to read them, and waits.

#include "objects/common/objects.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/memory.h"
#include "base/sys.h"
#include "objects/common/picks.h"
#include "objects/common/refs.h"
#include "thread/thread.h"
#include "vm/origin.h"

enum {
	SLICE = 5000000, // ns of waiting between looks at whether soscope is done
	PATIENCE = 600, // slices without a heartbeat
};

bool sosc_objects_count;
bool sosc_objects_types;
bool sosc_objects_asked;
uint32_t sosc_objects_since;
bool sosc_objects_begun;
bool sosc_objects_made;
bool sosc_objects_told;
struct sosc_ruby sosc_ruby;

static struct sosc_objects_place without_place, *place;
static uint32_t place_process; // process to which `place` belongs: see sosc_process
static uint32_t asking;
static uint32_t runtime_now, minor_now; // of the interpreter whose objects are counted
static enum sosc_objects_refusal refusal_now;
static const struct sosc_python *own_layouts; // given by the program itself
static uint32_t own_layout_count;

/** The plan that soscope has given. NULL if the session is over, or if there was none. */
const struct sosc_objects *sosc_objects_plan(void)
{
	const struct sosc_objects *own = sosc_own(SOSC_INSTRUMENT_OBJECTS, sizeof(*own));

	// if a session is over, its private memory reads as zeros
	return own && own->places ? sosc_given(SOSC_INSTRUMENT_OBJECTS, sizeof(*own)) : NULL;
}

/** The known memory layouts of versions of CPython. */
const struct sosc_python *sosc_objects_layouts(uint32_t *count)
{
	const struct sosc_objects *plan = sosc_objects_plan();

	*count = plan ? plan->layouts : own_layout_count;
	return plan ? (const void *)((const uint8_t *)plan + plan->first_layout) : own_layouts;
}

static struct sosc_objects_place *free_place(void)
{
	struct sosc_objects *own = sosc_own(SOSC_INSTRUMENT_OBJECTS, sizeof(*own));
	const struct sosc_objects *plan = sosc_objects_plan();
	uint32_t taken;

	if (!plan)
		return &without_place;
	taken = __atomic_fetch_add(&own->places_used, 1, __ATOMIC_RELAXED);
	if (taken >= plan->places)
		return &without_place;
	return (struct sosc_objects_place *)((uint8_t *)own + plan->first_place) + taken;
}

// 0 in a child that has not yet found out that it is a child, and if there has been no session.
static uint32_t process_now(void)
{
	return sosc_alive ? sosc_process() : 0;
}

static void take_place(void)
{
	struct sosc_objects_place *mine = free_place();

	if (place) { // the parent's: all that it says is true of our copy, too
		*mine = *place;
		mine->answered = mine->asked;
	}
	if (refusal_now) { // refused in a child that had not yet found out that it is a child
		mine->refusal = refusal_now;
		mine->state = SOSC_OBJECTS_REFUSED;
	}
	mine->side = (uint64_t)sosc_side;
	mine->tally = (uint64_t)&sosc_objects_tally;
	mine->ruby = (uint64_t)&sosc_ruby;
	mine->refs = (uint64_t)&sosc_refs;
	__atomic_store_n(&mine->pid, (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0), __ATOMIC_RELEASE);
	place = mine;
	place_process = process_now();
}

/** This is a forked child that is followed. */
void sosc_objects_forked(void)
{
	if (sosc_picks.is_on)
		sosc_picks_forked();
	asking = 0; // the thread that asks is not in this process
	take_place();
}

/** A session begins. Counting also goes on without a session. */
void sosc_objects_start(void)
{
	place = NULL;
	refusal_now = SOSC_OBJECTS_FINE;
	take_place();
	if (!sosc_objects_count)
		return;
	place->runtime = runtime_now;
	place->minor = minor_now;
	place->state = SOSC_OBJECTS_COUNTING;
}

/**
 * The session is over. Counting that the program itself has asked for does not depend on a session,
 * and goes on.
 */
void sosc_objects_quiet(void)
{
	sosc_objects_count = (sosc_objects_count && sosc_objects_asked) || sosc_objects_since ||
			     sosc_objects_made;
	place = &without_place;
}

/** Begin to count objects. Return false if there is no memory for it. */
bool sosc_objects_begin(enum sosc_objects_runtime runtime, uint32_t minor)
{
	const struct sosc_objects *plan = sosc_objects_plan();

	if (!sosc_origins_init())
		return false;
	sosc_side_begin();
	sosc_objects_types = plan && plan->flags & SOSC_OBJECTS_TYPES;
	sosc_picks_end();
	if (plan && plan->flags & SOSC_OBJECTS_SAMPLE)
		sosc_picks_plan(plan->scale);
	place->runtime = runtime_now = runtime;
	place->minor = minor_now = minor;
	refusal_now = SOSC_OBJECTS_FINE;
	sosc_objects_count = true;
	return true;
}

/** All hooks are in place and have been tested. */
void sosc_objects_ready(void)
{
	sosc_objects_tally.created = sosc_objects_tally.destroyed = 0;
	if (sosc_picks.is_wanted)
		sosc_picks_begin();
	__atomic_store_n(&place->state, SOSC_OBJECTS_COUNTING, __ATOMIC_RELEASE);
}

/** An order from soscope has been carried out. */
void sosc_objects_done(enum sosc_objects_order order)
{
	if (order == SOSC_OBJECTS_END && place->state == SOSC_OBJECTS_COUNTING)
		place->state = SOSC_OBJECTS_WAITING;
	__atomic_store_n(&place->done, order, __ATOMIC_RELEASE);
}

/**
 * The struct that soscope reads in this process. NULL if neither soscope nor the program has asked
 * for objects.
 */
const struct sosc_objects_place *sosc_objects_place(void)
{
	return place;
}

/** The reason why the interpreter's objects cannot be counted. */
enum sosc_objects_refusal sosc_objects_refused(void)
{
	return refusal_now;
}

/**
 * Return whether `place` describes this process. A forked child has its parent's place until it
 * makes a hooked call. In a PID namespace of its own the child may even have the same process id as
 * its parent. A vfork child shares its parent's memory and so counts as the same process.
 */
bool sosc_objects_are_ours(void)
{
	return process_now() == place_process &&
	       (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0) == place->pid;
}

/** The interpreter's objects cannot be counted. @text is the name of what is missing, or NULL. */
void sosc_objects_refuse(enum sosc_objects_refusal why, const char *text)
{
	uint32_t i = 0;

	sosc_objects_count = false;
	refusal_now = why;
	if (!sosc_objects_are_ours())
		return;
	for (; text && text[i] && i < SOSC_OBJECTS_TEXT - 1; i++)
		place->text[i] = (uint8_t)text[i];
	place->text[i] = 0;
	place->refusal = why;
	__atomic_store_n(&place->state, SOSC_OBJECTS_REFUSED, __ATOMIC_RELEASE);
}

/** The program itself asks for its objects. There may be no soscope that observes this process. */
void sosc_objects_alone(const struct sosc_python *layouts, uint32_t count)
{
	sosc_objects_told = true;
	own_layouts = layouts;
	own_layout_count = count;
	if (!place)
		place = &without_place;
	if (place != &without_place)
		return;
	// this process may be a forked child of the process that set these before
	place->pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	place_process = process_now();
}

/** Tell the program the state of the counting. */
void sosc_objects_tell(struct sosc_program *program)
{
	program->state = sosc_objects_count ? SOSC_OBJECTS_COUNTING :
			 refusal_now	    ? SOSC_OBJECTS_REFUSED :
					      SOSC_OBJECTS_WAITING;
	program->refusal = refusal_now;
	memcpy(program->text, place->text, sizeof(program->text));
}

// ---- requests to soscope to read the objects --------------------------------------

static bool is_over(void)
{
	return sosc_is_quiet() || sosc_control->command == SOSC_COMMAND_STOP;
}

/** Ask soscope to read the objects, and wait until it has. Return whether it has. */
bool sosc_objects_ask(enum sosc_objects_reason reason)
{
	uint64_t heartbeat = 0;
	uint32_t number, answered = 0, still = 0;

	if (is_over() || place == &without_place || place->state != SOSC_OBJECTS_COUNTING ||
	    !sosc_objects_are_ours())
		return false;
	if (__atomic_exchange_n(&asking, 1, __ATOMIC_ACQUIRE))
		return false; // another thread is asking
	place->reason = reason;
	number = place->asked + 1;
	__atomic_store_n(&place->asked, number, __ATOMIC_RELEASE);
	while (still < PATIENCE && !is_over()) {
		uint64_t seen = __atomic_load_n(&sosc_control->heartbeat, __ATOMIC_ACQUIRE);

		answered = __atomic_load_n(&place->answered, __ATOMIC_ACQUIRE);
		if (answered == number)
			break;
		still = seen == heartbeat ? still + 1 : 0;
		heartbeat = seen;
		__atomic_fetch_add(&sosc_control->waited_look,
				   sosc_wait(&place->answered, answered, SLICE), __ATOMIC_RELAXED);
	}
	__atomic_store_n(&asking, 0, __ATOMIC_RELEASE);
	return answered == number;
}
