// SPDX-License-Identifier: Apache-2.0
// Objects of a Ruby of a few lines, their classes and their moves: what is alive is told, and neither a
// class nor a page is read that Ruby has given back.
#include "host.h"

#include <string.h>
#include <sys/mman.h>

#include "image/image.h"
#include "base/instrument.h"
#include "objects/common/objects.h"
#include "vm/origin.h"
#include "objects/common/refs.h"
#include "objects/ruby/ruby.h"

enum {
	SLOTS = 12,
	OTHERS = 4, // slots of a page of its own, which Ruby may give back
	LONG = 4096,
	MANY = 3000, // classes: more than may wait
	ORIGIN = 9,
};

struct slot { // of Ruby's heap
	uint64_t flags, class;
	const char *name; // of a class or of a string
	uint64_t size;
	struct slot *refers; // and, if it has moved, where to
};

// ---- the interpreter -----------------------------------------------------------

static struct slot *slots, *others;
static struct slot name_now; // the string that was made last
static struct slot *asked[MANY]; // classes whose names Ruby was asked for
static uint32_t asked_count, marked, is_off, has_others = 1;
static void (*compacted)(void *), (*kept)(void *);
static char *text_now; // what a string was made of
static uint64_t told[64], told_count;

static void each_objects(sosc_slots *function, void *data)
{
	CHECK(is_off); // or a collection might begin
	(void)function(slots, slots + SLOTS, sizeof(*slots), data);
	if (has_others)
		(void)function(others, others + OTHERS, sizeof(*others), data);
}

static int is_internal(sosc_value object)
{
	return ((struct slot *)object)->size == 77;
}

static size_t size_of(sosc_value object)
{
	CHECK(((struct slot *)object)->flags != KIND_NODE);
	return 40;
}

static sosc_value real_class(sosc_value class)
{
	CHECK(sosc_ruby_kind(class) == KIND_CLASS);
	return class;
}

static sosc_value class_name(sosc_value class)
{
	const struct slot *of = (const struct slot *)class;

	CHECK(asked_count < MANY);
	asked[asked_count++] = (struct slot *)of;
	name_now = (struct slot){KIND_STRING, 0, of->name, of->name ? of->size : 0};
	return of->name ? (sosc_value)&name_now : 8; // nil
}

static const char *text_of(volatile sosc_value *string)
{
	return ((const struct slot *)*string)->name;
}

static sosc_value length_of(sosc_value string)
{
	return ((const struct slot *)string)->size << 1 | 1;
}

static sosc_value make_string(const char *data, long size)
{
	free(text_now);
	text_now = calloc(1, (size_t)size + 1);
	memcpy(text_now, data, (size_t)size);
	return (sosc_value)text_now;
}

static sosc_value turn_off(void)
{
	return is_off++;
}

static sosc_value turn_on(void)
{
	is_off = 0;
	return 0;
}

static void mark(sosc_value object)
{
	CHECK(sosc_ruby_kind(object) == KIND_CLASS);
	marked++;
}

static sosc_value location(sosc_value object)
{
	return (sosc_value)((struct slot *)object)->refers;
}

static void register_address(sosc_value *at)
{
	CHECK(!*at);
}

static sosc_value wrap(sosc_value class, void *data, const void *type)
{
	void (*const *functions)(void *) = type;

	kept = functions[1];
	compacted = functions[4];
	return (sosc_value)&name_now;
}

static void reachable(sosc_value object, void (*function)(sosc_value object, void *data),
		      void *data)
{
	const struct slot *slot = (const struct slot *)object;

	if (slot->class)
		function(slot->class, data);
	if (slot->refers)
		function((sosc_value)slot->refers, data);
}

static void reachable_from_root(void (*function)(const char *category, sosc_value object,
						 void *data),
				void *data)
{
	function("vm", (sosc_value)&slots[3], data);
	told_count = sosc_refs.count;
	CHECK(told_count < 64);
	memcpy(told, (const void *)sosc_refs.words, told_count * sizeof(*told));
}

static int no(void)
{
	return 0;
}

static const struct host_symbol names[] = {
	{"ruby_native_thread_p", no},
	{"ruby_thread_has_gvl_p", no},
	{"rb_postponed_job_register_one", no},
	{"rb_objspace_reachable_objects_from", reachable},
	{"rb_objspace_reachable_objects_from_root", reachable_from_root},
};

// ---- its heap ------------------------------------------------------------------

static void make(struct slot *slot, uint64_t flags, struct slot *class)
{
	uint32_t *word = sosc_side_make((sosc_value)slot);

	*slot = (struct slot){.flags = flags, .class = (uint64_t)class};
	*word = SOSC_SIDE_USED | ((sosc_value)slot & 8 ? 3u : 0u) << SOSC_SIDE_SHIFT | ORIGIN;
}

// Two classes, objects of theirs, and some of no class.
static void make_heap(void)
{
	sosc_side_clear();
	CHECK(sosc_ruby_types_begin());
	memset(slots, 0, SLOTS * sizeof(*slots));
	memset(others, 0, OTHERS * sizeof(*others));
	make(&slots[0], KIND_CLASS, NULL);
	make(&slots[1], KIND_CLASS, NULL);
	slots[0].name = "First";
	slots[0].size = 5;
	slots[1].name = "Second";
	slots[1].size = 6;
	for (int i = 2; i < 5; i++)
		make(&slots[i], 1, &slots[0]);
	make(&slots[5], KIND_STRING, &slots[1]);
	make(&slots[6], KIND_IMEMO, (struct slot *)1); // of no class, whatever stands there
	make(&slots[7], KIND_NODE, (struct slot *)1);
	make(&slots[8], KIND_ZOMBIE, (struct slot *)1);
	make(&others[0], 1, &slots[1]);
	asked_count = 0;
}

// ---- checks --------------------------------------------------------------------

static uint64_t count_of(const char *type)
{
	struct sosc_ruby_rows counted;
	uint64_t count = 0;

	CHECK(sosc_ruby_count(0, &counted) && !is_off);
	for (uint64_t i = 0; i < counted.count; i++) {
		const struct sosc_ruby_row *row = &counted.rows[i];
		struct sosc_text text = row->count ? sosc_ruby_type_text(row->type) :
						     (struct sosc_text){"", 0, 0};

		if (text.size == strlen(type) && row->count && !memcmp(text.data, type, text.size))
			count += row->count;
	}
	sosc_ruby_rows_free(&counted);
	return count;
}

static void check_rows(void)
{
	struct sosc_ruby_places places;
	uint64_t lost;

	make_heap();
	CHECK(count_of("First") == 3 && count_of("Second") == 2 && asked_count == 2);
	CHECK(count_of("__class__") == 2 && count_of("__imemo__") == 1);
	CHECK(count_of("__node__") == 1 && !count_of("__unknown__"));
	CHECK(sosc_ruby_places(0, &places) && places.count == 9 && !is_off);
	CHECK(places.places[0].addr == (uint64_t)slots && places.places[8].origin == ORIGIN);
	sosc_ruby_places_free(&places);
	*sosc_side_at((sosc_value)&slots[5]) |= SOSC_SIDE_OLDER;
	CHECK(sosc_ruby_stats(SOSC_SIDE_OLDER, &lost) == (sosc_value)text_now && !lost);
	CHECK(!strcmp(text_now,
		      "      3 ?:0:First\n      2 ?:0:__class__\n"
		      "      1 ?:0:Second\n      1 ?:0:__imemo__\n      1 ?:0:__node__\n"));
	sosc_side_clear();
	sosc_ruby_take_older();
	CHECK(count_of("First") == 3 && count_of("Second") == 2 && !is_off);
}

// Classes that wait to be asked: Ruby keeps them, and tells of those that it frees all the same.
static void check_waiting(void)
{
	struct slot *classes = host_edge(MANY * sizeof(*classes)), *gone;
	uint32_t waiting;

	make_heap();
	for (int i = 0; i < MANY; i++)
		classes[i] = (struct slot){KIND_CLASS, 0, "Name", 4};
	CHECK(sosc_ruby_type_note((sosc_value)&classes[0]));
	CHECK(sosc_ruby_type_note((sosc_value)&classes[1]));
	CHECK(sosc_ruby_type_note((sosc_value)&classes[0])); // it waits already
	sosc_ruby_types_keep();
	CHECK(marked == 2);
	gone = host_edge(sizeof(*gone));
	*gone = classes[0];
	CHECK(sosc_ruby_type_note((sosc_value)gone));
	sosc_ruby_types_forget((sosc_value)gone);
	CHECK(!mprotect((void *)((uint64_t)gone & ~4095ull), SOSC_PAGE, PROT_NONE));
	sosc_ruby_types_keep();
	sosc_ruby_types_ask();
	CHECK(marked == 4 && asked_count == 2);
	for (int i = 0; i < MANY; i++)
		(void)sosc_ruby_type_note((sosc_value)&classes[i]);
	marked = 0;
	sosc_ruby_types_keep();
	waiting = marked;
	CHECK(waiting > 500 && waiting < MANY);
	sosc_ruby_types_end(); // nobody tells of ends any more
	CHECK(!mprotect((void *)((uint64_t)classes & ~4095ull), MANY * sizeof(*classes),
			PROT_NONE));
	marked = asked_count = 0;
	sosc_ruby_types_keep();
	sosc_ruby_types_ask();
	sosc_ruby_types_walk();
	sosc_ruby_types_walked();
	CHECK(!marked && !asked_count);
}

// As long as there is room, and each its own.
static void check_names(void)
{
	static char texts[MANY][32], much[LONG + 2];
	static struct slot classes[MANY];
	uint32_t named = 0;

	make_heap();
	memset(much, 'm', LONG + 1);
	for (int i = 0; i < MANY - 2; i++) {
		uint32_t at, size = (uint32_t)sprintf(texts[i], "Module::Class%d", i);
		struct sosc_text text;

		classes[i] = (struct slot){KIND_CLASS, 0, i % 8 ? texts[i] : much, size};
		if (!(i % 8))
			classes[i].size = i % 16 ? LONG : LONG + 1;
		sosc_ruby_types_walk();
		at = sosc_ruby_type_meet((sosc_value)&classes[i]);
		sosc_ruby_types_walked();
		if (at == SOSC_RUBY_TYPES)
			continue; // others have its places
		text = sosc_ruby_type_text(SOSC_RUBY_BUILTIN + at);
		CHECK(i % 8 || text.size == (i % 16 ? LONG : strlen("#<Class>")));
		CHECK(i % 8 == 0 || (text.size == size && !memcmp(text.data, texts[i], size)));
		named++;
	}
	CHECK(named > MANY / 2 && asked_count == named);
}

// What has moved is followed, and a page that Ruby has given back is not read.
static void check_moves(void)
{
	struct slot *to = &slots[10];

	make_heap();
	sosc_ruby_hear_of_moves();
	sosc_objects_count = true;
	CHECK(sosc_ruby_type_note((sosc_value)&slots[0]));
	CHECK(count_of("First") == 3);
	CHECK(sosc_ruby_type_note((sosc_value)&slots[1]));
	*to = slots[2];
	slots[2] = (struct slot){.flags = KIND_MOVED, .refers = to};
	slots[11] = slots[1];
	slots[1] = (struct slot){.flags = KIND_MOVED, .refers = &slots[11]};
	slots[5].class = (uint64_t)&slots[11];
	has_others = 0;
	CHECK(!mprotect((void *)((uint64_t)others & ~4095ull), SOSC_PAGE, PROT_NONE));
	compacted(NULL);
	CHECK(sosc_ruby_has_compacted && *sosc_side_at((sosc_value)to) & ORIGIN);
	CHECK(!*sosc_side_at((sosc_value)&slots[2]) && *sosc_side_at((sosc_value)others));
	asked_count = 0;
	CHECK(count_of("First") == 3 && count_of("Second") == 1 && !asked_count);
	sosc_objects_count = false;
	CHECK(!mprotect((void *)((uint64_t)others & ~4095ull), SOSC_PAGE, PROT_READ | PROT_WRITE));
	has_others = 1;
}

static bool is_told(const void *from, uint64_t to)
{
	uint64_t now = 0;

	for (uint64_t i = 0; i < told_count; i++) {
		if (now == ((uint64_t)from | SOSC_REF_HOLDER) && told[i] == to)
			return true;
		if ((told[i] & SOSC_REF_BITS) == SOSC_REF_HOLDER)
			now = told[i];
	}
	return false;
}

static void check_refs(void)
{
	make_heap();
	slots[2].refers = &slots[3];
	slots[3].refers = &slots[2]; // without an end
	slots[6].class = slots[7].class = 0; // as Ruby tells no class of theirs
	sosc_ruby_refs();
	CHECK(is_told(&slots[2], (uint64_t)&slots[0] | SOSC_REF_TYPE));
	CHECK(is_told(&slots[2], (uint64_t)&slots[3]) && is_told(&slots[3], (uint64_t)&slots[2]));
	CHECK(!is_told(&slots[8], 1) && asked_count == 2 && !is_off);
	CHECK((told[told_count - 2] & SOSC_REF_BITS) == SOSC_REF_ROOT);
	CHECK(told[told_count - 1] == (uint64_t)&slots[3]);
}

int main(void)
{
	struct sosc_loaded *image = host_image(names, sizeof(names) / sizeof(*names));

	host_control(SOSC_INSTRUMENT_OBJECTS, 1);
	sosc_instruments[SOSC_INSTRUMENT_OBJECTS].start(); // nobody looks
	sosc_side_begin();
	CHECK(sosc_origins_init());
	image->map = (void *)image;
	sosc_ruby_try(image);
	sosc_rb.rb_objspace_each_objects = each_objects;
	sosc_rb.rb_objspace_internal_object_p = is_internal;
	sosc_rb.rb_obj_memsize_of = size_of;
	sosc_rb.rb_class_real = real_class;
	sosc_rb.rb_mod_name = class_name;
	sosc_rb.rb_string_value_ptr = text_of;
	sosc_rb.rb_str_length = length_of;
	sosc_rb.rb_utf8_str_new = make_string;
	sosc_rb.rb_gc_disable = turn_off;
	sosc_rb.rb_gc_enable = turn_on;
	sosc_rb.rb_gc_mark = mark;
	sosc_rb.rb_gc_location = location;
	sosc_rb.rb_gc_register_address = register_address;
	sosc_rb.rb_data_typed_object_wrap = wrap;
	slots = host_edge(SLOTS * sizeof(*slots));
	others = host_edge(OTHERS * sizeof(*others));
	check_rows();
	check_waiting();
	check_names();
	check_moves();
	check_refs();
	return 0;
}
