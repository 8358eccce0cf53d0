// SPDX-License-Identifier: Apache-2.0
// Starts and ends the counting of Ruby's objects. It uses Ruby's own trace points for objects that
// are made and freed. These are set by a postponed job, which Ruby runs at a moment when any code
// may run. Ruby's lock (the GVL) is held then, and at each of the events. The functions called at
// an event must neither make an object nor raise.

#include "objects/ruby/ruby.h"
#include "base/arch.h"
#include "image/image.h"
#include "image/lookup.h"
#include "objects/common/picks.h"
#include "thread/thread.h"
#include "vm/origin.h"

enum {
	EVENT_NEWOBJ = 0x100000, // ruby/internal/event.h
	EVENT_FREEOBJ = 0x200000,
	TEST_SIZE = 300, // bytes of the string that is made as a test
};

struct sosc_ruby_api sosc_rb;
uint64_t sosc_ruby_hidden;
uint64_t sosc_ruby_made[SOSC_RUBY_KIND + 1];

// A copy, since a job may run after the next session has made the list of images anew. Ruby's
// library itself is never unloaded.
static struct sosc_loaded interpreter;
static uint32_t is_pending, naming;
static unsigned job_begin, job_names, job_order;
static sosc_value point_made, point_freed;
static uint32_t order_now;

// ---- names -----------------------------------------------------------------------

/** Return whether Ruby has a function or a variable of this name. Its address is stored at @to. */
bool sosc_ruby_look_up(void *to, const char *name)
{
	uint64_t addr = sosc_function_of(&interpreter, name);

	memcpy(to, &addr, sizeof(addr));
	return addr != 0;
}

static bool need(void *to, const char *name)
{
	if (sosc_ruby_look_up(to, name))
		return true;
	sosc_objects_refuse(SOSC_OBJECTS_NO_FUNCTION, name);
	return false;
}

#define NEEDED(name) need(&sosc_rb.name, #name)
#define WANTED(name) sosc_ruby_look_up(&sosc_rb.name, #name)

static bool look_all_up(void)
{
	(void)WANTED(rb_cRactor);
	(void)WANTED(rb_source_location_cstr);
	if (!sosc_rb.rb_source_location_cstr && !(NEEDED(rb_sourcefile) && NEEDED(rb_sourceline)))
		return false;
	return NEEDED(rb_tracepoint_new) && NEEDED(rb_tracepoint_enable) &&
	       NEEDED(rb_tracepoint_disable) && NEEDED(rb_tracearg_from_tracepoint) &&
	       NEEDED(rb_tracearg_object) && NEEDED(rb_set_end_proc) &&
	       NEEDED(rb_gc_register_address) && NEEDED(rb_gc_mark) && NEEDED(rb_gc_start) &&
	       NEEDED(rb_gc_disable) && NEEDED(rb_gc_enable) && NEEDED(rb_data_typed_object_wrap) &&
	       NEEDED(rb_gc_location) && NEEDED(rb_objspace_each_objects) &&
	       NEEDED(rb_objspace_internal_object_p) && NEEDED(rb_obj_memsize_of) &&
	       NEEDED(rb_class_real) && NEEDED(rb_mod_name) && NEEDED(rb_string_value_ptr) &&
	       NEEDED(rb_str_length) && NEEDED(rb_str_new) && NEEDED(ruby_version);
}

// ---- jobs ------------------------------------------------------------------------

/** Let Ruby run a job soon. May be called at any instruction of a Ruby thread. */
bool sosc_ruby_postpone(unsigned *handle, void (*job)(void *))
{
	if (!sosc_rb.rb_postponed_job_preregister)
		return sosc_rb.rb_postponed_job_register_one(0, job, NULL) != 0;
	if (!*handle)
		*handle = sosc_rb.rb_postponed_job_preregister(0, job, NULL) + 1;
	if (!*handle)
		return false;
	sosc_rb.rb_postponed_job_trigger(*handle - 1);
	return true;
}

static void name_classes(void *unused)
{
	(void)unused;
	__atomic_store_n(&naming, 0, __ATOMIC_RELEASE);
	if (sosc_objects_count)
		sosc_ruby_types_ask();
}

// ---- objects ---------------------------------------------------------------------

// From here on Ruby reports nothing, so no address of a class may be kept.
static void leave(void)
{
	sosc_objects_count = false;
	if (point_made)
		(void)sosc_rb.rb_tracepoint_disable(point_made);
	if (point_freed)
		(void)sosc_rb.rb_tracepoint_disable(point_freed);
	sosc_ruby_types_end();
}

static inline sosc_value object_of(sosc_value point)
{
	return sosc_rb.rb_tracearg_object(sosc_rb.rb_tracearg_from_tracepoint(point));
}

// Notes the class of an object. A trace point belongs to the Ractor that has enabled it, though all
// Ractors share one heap. Up to 3.1, the thread of a new Ractor crashes because of trace points
// before it runs any code.
static void note_class(sosc_value class)
{
	if (sosc_rb.rb_cRactor && class == *sosc_rb.rb_cRactor) {
		leave();
		sosc_objects_refuse(SOSC_OBJECTS_RACTORS, NULL);
		return;
	}
	if (sosc_ruby_type_is_known(class))
		return;
	if (sosc_ruby_type_note(class) && !__atomic_exchange_n(&naming, 1, __ATOMIC_ACQ_REL))
		(void)sosc_ruby_postpone(&job_names, name_classes);
}

static void made(sosc_value point, void *unused)
{
	sosc_value object, class;
	uint32_t *word, origin;

	(void)unused;
	if (!sosc_objects_count) { // for example in a child that is not followed
		if (!sosc_ruby_looks)
			leave();
		return;
	}
	object = object_of(point);
	// the end of an older class at this address may not have been reported
	if (sosc_ruby_is_class(object))
		sosc_ruby_types_forget(object);
	class = sosc_ruby_has_class(sosc_ruby_kind(object)) ? sosc_ruby_class(object) : 0;
	word = sosc_side_at(object);
	if (sosc_picks.is_on && !sosc_picks_take(SOSC_RUBY_SLOT)) {
		sosc_objects_tally.created++;
		if (word)
			*word = 0;
		if (class)
			note_class(class);
		return;
	}
	// another trace point's function has caused a collection, and Ruby reported no events
	// during it
	if (word && *word)
		sosc_objects_tally.destroyed++;
	origin = sosc_ruby_origin();
	if (origin == ORIGIN_OURS ||
	    (sosc_ruby_hidden && sosc_ruby_hidden == sosc_thread_pointer())) {
		if (word)
			*word = 0;
		return;
	}
	sosc_object_made(object, word, object & 8 ? 3 : 0, origin);
	sosc_ruby_made[sosc_ruby_kind(object)]++;
	if (class)
		note_class(class);
}

// Does not test whether objects are counted: a freed object has ended in any case.
static void freed(sosc_value point, void *unused)
{
	sosc_value object = object_of(point);

	(void)unused;
	sosc_object_freed(object);
	if (sosc_ruby_is_class(object))
		sosc_ruby_types_forget(object);
}

// ---- setting the hooks -------------------------------------------------------------

// Collects garbage even if the program has disabled collections.
static void collect(void)
{
	bool was_off = sosc_rb.rb_gc_enable() != 0;

	sosc_ruby_types_ask(); // afterwards the agent keeps none of the classes alive
	(void)sosc_rb.rb_gc_start();
	if (was_off)
		(void)sosc_rb.rb_gc_disable();
}

// The program ends by itself: its exit handlers have run, and this one, the first registered, is
// called last.
static void ended(sosc_value unused)
{
	const struct sosc_objects *plan = sosc_objects_plan();

	(void)unused;
	if (!sosc_objects_count || !plan || sosc_is_quiet())
		return;
	if (plan->flags & SOSC_OBJECTS_COLLECT)
		collect();
	sosc_ruby_look();
	(void)sosc_objects_ask(SOSC_OBJECTS_AT_END);
	sosc_objects_count = false;
}

static bool hear_of(sosc_value *point, uint32_t event, void (*function)(sosc_value, void *))
{
	if (!*point) {
		sosc_rb.rb_gc_register_address(point);
		*point = sosc_rb.rb_tracepoint_new(0, event, function, NULL);
	}
	if (!*point)
		return false;
	(void)sosc_rb.rb_tracepoint_enable(*point);
	return true;
}

// Returns whether a string that is made here is reported.
static bool counts_right(void)
{
	sosc_value string = sosc_rb.rb_str_new(NULL, TEST_SIZE);
	uint32_t *word = sosc_side_at(string);
	bool right = word && *word & SOSC_SIDE_USED && sosc_ruby_kind(string) == KIND_STRING;

	if (right)
		*word = 0;
	return right;
}

// Sets what stays when counting ends. These functions test whether objects are counted.
static void hear_of_end(void)
{
	static bool is_heard;

	if (!is_heard) {
		sosc_rb.rb_set_end_proc(ended, 0);
		sosc_ruby_hear_of_moves();
	}
	is_heard = true;
}

/** Count again in a child in which counting had ended. Older objects are unknown there. */
bool sosc_ruby_resume(void)
{
	if (sosc_objects_count)
		return true;
	if (!point_made || !point_freed || sosc_objects_refused())
		return false;
	sosc_side_clear();
	// the agent may have rested since
	if (!sosc_ruby_types_begin() || !sosc_origins_init())
		return false;
	sosc_side_begin();
	sosc_objects_count = true;
	return hear_of(&point_made, EVENT_NEWOBJ, made) &&
	       hear_of(&point_freed, EVENT_FREEOBJ, freed);
}

static bool is_started(void)
{
	return *sosc_rb.rb_cObject &&
	       sosc_rb.rb_const_defined(*sosc_rb.rb_cObject, sosc_rb.rb_intern("TracePoint"));
}

static void begin(void *unused)
{
	(void)unused;
	if (!NEEDED(rb_const_defined) || !NEEDED(rb_cObject) || !NEEDED(rb_intern))
		return;
	if (!is_started()) {
		__atomic_store_n(&is_pending, 0, __ATOMIC_RELEASE); // try again later
		return;
	}
	sosc_ruby_offer();
	if (!look_all_up())
		return;
	if (!sosc_ruby_types_begin() ||
	    !sosc_objects_begin(SOSC_RUNTIME_RUBY, sosc_ruby_version(sosc_rb.ruby_version))) {
		sosc_objects_refuse(SOSC_OBJECTS_NO_MEMORY, NULL);
		return;
	}
	hear_of_end();
	if (!hear_of(&point_made, EVENT_NEWOBJ, made) ||
	    !hear_of(&point_freed, EVENT_FREEOBJ, freed) || !counts_right()) {
		leave();
		sosc_objects_refuse(SOSC_OBJECTS_WRONG, NULL);
		return;
	}
	sosc_objects_ready();
}

// Returns whether Ruby has the functions that are needed to add a postponed job.
static bool can_postpone(const struct sosc_loaded *image)
{
	if (interpreter.map != image->map)
		interpreter = *image;
	return NEEDED(ruby_native_thread_p) && NEEDED(ruby_thread_has_gvl_p) &&
	       ((WANTED(rb_postponed_job_preregister) && WANTED(rb_postponed_job_trigger)) ||
		NEEDED(rb_postponed_job_register_one));
}

/**
 * Ruby's image makes a call. If a Ruby thread with the lock makes it, add a postponed job that
 * begins to count.
 */
void sosc_ruby_try(const struct sosc_loaded *image)
{
	if (__atomic_load_n(&is_pending, __ATOMIC_RELAXED))
		return;
	if (!can_postpone(image))
		return;
	if (!sosc_rb.ruby_native_thread_p() || !sosc_rb.ruby_thread_has_gvl_p() ||
	    __atomic_exchange_n(&is_pending, 1, __ATOMIC_ACQ_REL))
		return;
	if (!sosc_ruby_postpone(&job_begin, begin))
		__atomic_store_n(&is_pending, 0, __ATOMIC_RELEASE);
}

// ---- orders ----------------------------------------------------------------------

static void begin_late(void)
{
	if (sosc_objects_count)
		return;
	begin(NULL);
	if (sosc_objects_count)
		sosc_ruby_take_older();
}

static void carry_out(void *unused)
{
	enum sosc_objects_order order = __atomic_exchange_n(&order_now, 0, __ATOMIC_ACQ_REL);

	(void)unused;
	if (!order || !sosc_objects_plan())
		return; // soscope did not wait long enough
	switch (order) {
	case SOSC_OBJECTS_BEGIN:
		begin_late();
		break;
	case SOSC_OBJECTS_GARBAGE:
		if (sosc_objects_count)
			collect();
		break;
	case SOSC_OBJECTS_END:
		leave();
		sosc_side_clear();
		break;
	case SOSC_OBJECTS_REFS:
		if (sosc_objects_count)
			sosc_ruby_refs();
		break;
	}
	sosc_objects_done(order);
}

/**
 * Let Ruby carry out an order when it next checks for interrupts: a thread that soscope borrows
 * cannot take Ruby's lock. Return whether there is a Ruby, and this is one of its threads.
 */
bool sosc_ruby_order(const struct sosc_objects_call *call)
{
	const struct sosc_loaded *image = NULL;

	for (uint32_t i = 0; !image && i < sosc_loaded_count; i++)
		if (sosc_loaded[i].map && sosc_ruby_is_in(&sosc_loaded[i]))
			image = &sosc_loaded[i];
	if (!image || !can_postpone(image) || !sosc_rb.ruby_native_thread_p())
		return false;
	__atomic_store_n(&is_pending, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&order_now, call->order, __ATOMIC_RELEASE);
	return sosc_ruby_postpone(&job_order, carry_out);
}
