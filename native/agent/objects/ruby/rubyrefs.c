// SPDX-License-Identifier: Apache-2.0
// Which Ruby objects refer to which others. The agent asks Ruby itself, with the functions of
// ObjectSpace, for the references of each object in the order of the walk over the heap, and for
// the references that Ruby holds without any object.

#include "objects/common/refs.h"
#include "objects/ruby/ruby.h"

enum { CATEGORY_SHIFT = 3 };

static const char *category_now;

static void referred(sosc_value object, void *class)
{
	sosc_refs_tell(object, object == (sosc_value) class ? SOSC_REF_TYPE : SOSC_REF_OBJECT);
}

static void held(const char *category, sosc_value object, void *unused)
{
	(void)unused;
	if (category != category_now)
		sosc_refs_holder((uint64_t)category << CATEGORY_SHIFT, SOSC_REF_ROOT);
	category_now = category;
	sosc_refs_tell(object, SOSC_REF_OBJECT);
}

static bool is_object(uint32_t kind)
{
	return kind != KIND_NONE && kind != KIND_ZOMBIE && kind != KIND_MOVED;
}

// Returns whether a program can have seen this class, and so may have given it a name.
static bool is_named(sosc_value object)
{
	return sosc_ruby_is_class(object) && !sosc_rb.rb_objspace_internal_object_p(object);
}

static int slots(void *start, void *end, size_t stride, void *unused)
{
	(void)unused;
	for (uint64_t at = (uint64_t)start; at < (uint64_t)end; at += stride) {
		uint32_t kind = sosc_ruby_kind(at);
		sosc_value class = sosc_ruby_has_class(kind) ? sosc_ruby_class(at) : 0;

		if (!is_object(kind))
			continue;
		if (is_named(at))
			(void)sosc_ruby_type_meet(at);
		sosc_refs_holder(at, SOSC_REF_HOLDER);
		sosc_rb.rb_objspace_reachable_objects_from(at, referred, (void *)class);
	}
	return 0;
}

#define WANTED(name) sosc_ruby_look_up(&sosc_rb.name, #name)

/** Write all references between objects. Ruby's lock is held all the time. */
void sosc_ruby_refs(void)
{
	bool was_off;

	if (!WANTED(rb_objspace_reachable_objects_from) ||
	    !WANTED(rb_objspace_reachable_objects_from_root) || !sosc_refs_begin())
		return;
	was_off = sosc_rb.rb_gc_disable() != 0;
	sosc_ruby_types_ask(); // otherwise the agent would hold references to the waiting classes
	sosc_ruby_types_walk();
	category_now = NULL;
	sosc_rb.rb_objspace_each_objects(slots, NULL);
	sosc_rb.rb_objspace_reachable_objects_from_root(held, NULL);
	sosc_ruby_types_walked();
	sosc_refs_end();
	if (!was_off)
		(void)sosc_rb.rb_gc_enable();
}
