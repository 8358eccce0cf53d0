// SPDX-License-Identifier: Apache-2.0
// Functions for a Ruby program that asks for its own objects by `require "memprof"`. The last
// element of $LOAD_PATH is a folder with memprof.rb and soscope_memprof.rb. The first requires the
// second. When the second is compiled, the agent adds a postponed job, which defines
// Memprof::Agent. So a program that does not ask gets no additional constant, method or variable.
//
// Nothing here raises an exception. The library does that.

#include "base/arch.h"
#include "objects/common/picks.h"
#include "objects/ruby/ruby.h"
#include "vm/origin.h"

enum {
	PATH_MAX = 4096, // bytes
	NOT_COUNTED = 100, // is not among the refusals
};

static char library[PATH_MAX];
static uint64_t lost;

static sosc_value number(uint64_t value) // a Fixnum
{
	return value << 1 | 1;
}

static uint32_t why_not(void)
{
	if (sosc_objects_refused())
		return sosc_objects_refused();
	if (sosc_objects_count && sosc_picks.is_on)
		return SOSC_OBJECTS_SAMPLED;
	return sosc_objects_count ? 0 : NOT_COUNTED;
}

static uint32_t older(uint32_t word)
{
	return word | SOSC_SIDE_OLDER;
}

// ---- Memprof::Agent ----------------------------------------------------------------

// ours(path): objects that this file makes are not the program's.
static sosc_value agent_ours(sosc_value self, sosc_value path)
{
	volatile sosc_value text = path;

	(void)self;
	if (sosc_origins)
		sosc_ruby_disown(sosc_rb.rb_string_value_ptr(&text));
	return number(0);
}

// start: ask for the objects that are made from now on. Returns 0, or the reason why that is
// impossible.
static sosc_value agent_start(sosc_value self)
{
	(void)self;
	(void)sosc_ruby_resume();
	if (why_not())
		return number(why_not());
	sosc_objects_asked = true;
	sosc_side_change(older);
	return number(0);
}

static sosc_value agent_stop(sosc_value self)
{
	(void)self;
	sosc_objects_asked = false;
	return number(0);
}

// stats: returns a String of lines, or an Integer with the reason why there is none.
static sosc_value agent_stats(sosc_value self)
{
	sosc_value lines;

	(void)self;
	if (why_not())
		return number(why_not());
	lines = sosc_ruby_stats(SOSC_SIDE_OLDER, &lost);
	return lines ? lines : number(SOSC_OBJECTS_NO_MEMORY);
}

// lost: returns the number of objects that were in no line of the last stats.
static sosc_value agent_lost(sosc_value self)
{
	(void)self;
	return number(lost);
}

// made: returns an Array with the number of objects made so far, by RUBY_T_..., or an Integer with
// the reason why there is none.
static sosc_value agent_made(sosc_value self)
{
	uint64_t counts[SOSC_RUBY_KIND + 1];
	sosc_value array;

	(void)self;
	(void)sosc_ruby_resume();
	if (why_not())
		return number(why_not());
	memcpy(counts, sosc_ruby_made, sizeof(counts));
	array = sosc_rb.rb_ary_new();
	for (uint32_t i = 0; i <= SOSC_RUBY_KIND; i++)
		(void)sosc_rb.rb_ary_push(array, number(counts[i]));
	return array;
}

// ---- single objects, for a dump ------------------------------------------------------

static uint64_t of_number(sosc_value value)
{
	return value >> 1;
}

static sosc_value string(struct sosc_text text)
{
	return sosc_rb.rb_utf8_str_new(text.data, text.size);
}

// places(all): returns an Array with address, origin and type of each object, in the order in which
// Ruby walks its heap. With @all, objects that were not asked for are included.
static sosc_value agent_places(sosc_value self, sosc_value all)
{
	struct sosc_ruby_places places;
	sosc_value array;

	(void)self;
	if (why_not())
		return number(why_not());
	if (!sosc_ruby_places(of_number(all) ? 0 : SOSC_SIDE_OLDER, &places))
		return number(SOSC_OBJECTS_NO_MEMORY);
	array = sosc_rb.rb_ary_new();
	for (uint64_t i = 0; i < places.count; i++) {
		(void)sosc_rb.rb_ary_push(array, number(places.places[i].addr));
		(void)sosc_rb.rb_ary_push(array, number(places.places[i].origin));
		(void)sosc_rb.rb_ary_push(array, number(places.places[i].type));
	}
	sosc_ruby_places_free(&places);
	return array;
}

// hide(yes): objects that this thread makes from now on are not the program's.
static sosc_value agent_hide(sosc_value self, sosc_value yes)
{
	(void)self;
	sosc_ruby_hidden = of_number(yes) ? sosc_thread_pointer() : 0;
	return number(0);
}

// tables: returns the version of the structs that both sides use.
static sosc_value agent_tables(sosc_value self)
{
	(void)self;
	return number(SOSC_TABLES);
}

static sosc_value agent_file(sosc_value self, sosc_value origin)
{
	(void)self;
	return string(sosc_ruby_file_text((uint32_t)of_number(origin)));
}

static sosc_value agent_line(sosc_value self, sosc_value origin)
{
	(void)self;
	return number(sosc_ruby_line((uint32_t)of_number(origin)));
}

static sosc_value agent_name(sosc_value self, sosc_value type)
{
	(void)self;
	return string(sosc_ruby_type_text((uint32_t)of_number(type)));
}

// ---- the library ----------------------------------------------------------------------

#define DEFINE(name, arguments) \
	sosc_rb.rb_define_module_function(agent, #name, (void (*)(void))agent_##name, arguments)

static void define(void *unused)
{
	sosc_value memprof = sosc_rb.rb_define_module("Memprof");
	sosc_value agent = sosc_rb.rb_define_module_under(memprof, "Agent");

	(void)unused;
	sosc_objects_told = true;
	DEFINE(ours, 1);
	DEFINE(start, 0);
	DEFINE(stop, 0);
	DEFINE(stats, 0);
	DEFINE(lost, 0);
	DEFINE(hide, 1);
	DEFINE(tables, 0);
	DEFINE(made, 0);
	DEFINE(places, 1);
	DEFINE(file, 1);
	DEFINE(line, 1);
	DEFINE(name, 1);
}

#define WANTED(name) sosc_ruby_look_up(&sosc_rb.name, #name)

/** Ruby makes the first object of a file. */
void sosc_ruby_meet(const char *file)
{
	static unsigned job;
	uint32_t i = 0;

	while (library[i] && library[i] == file[i])
		i++;
	if (i && !library[i] && !file[i])
		(void)sosc_ruby_postpone(&job, define);
}

/** Make the library known to Ruby. The thread holds the GVL. */
void sosc_ruby_offer(void)
{
	const struct sosc_objects *plan = sosc_objects_plan();
	const char *path = plan && plan->library ? (const char *)plan + plan->library : "";
	uint32_t size = 0, folder = 0;

	if (!*path || *library ||
	    !(WANTED(rb_gv_get) && WANTED(rb_filesystem_str_new) && WANTED(rb_utf8_str_new) &&
	      WANTED(rb_ary_new) && WANTED(rb_ary_push) && WANTED(rb_define_module) &&
	      WANTED(rb_define_module_under) && WANTED(rb_define_module_function)))
		return;
	for (; path[size] && size < PATH_MAX - 1; size++) {
		library[size] = path[size];
		if (path[size] == '/')
			folder = size;
	}
	(void)sosc_rb.rb_ary_push(sosc_rb.rb_gv_get("$LOAD_PATH"),
				  sosc_rb.rb_filesystem_str_new(library, folder));
}
