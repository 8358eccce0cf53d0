// SPDX-License-Identifier: Apache-2.0
// The last look at Ruby's objects: makes rows of all that are alive. The agent uses Ruby's own walk
// over the heap, as ObjectSpace does. That walk first finishes a collection that is under way, and
// it knows the slots.

#include "base/sys.h"
#include "objects/ruby/ruby.h"
#include "vm/origin.h"

enum {
	ROWS = 1 << 20, // a power of two
	ROWS_TRIED = 256,
};

bool sosc_ruby_looks;

static struct sosc_ruby_row *rows;
static uint32_t without; // objects with one of these bits in their words are left out
static uint64_t seen; // objects in the side table that the walk has met, too
static uint64_t lost; // objects for which there was no row left

static struct sosc_ruby_row *row_of(uint32_t origin, uint32_t type)
{
	uint64_t hash = ((uint64_t)origin << 32 | type) * 0x9e3779b97f4a7c15;

	for (uint32_t i = 0; i < ROWS_TRIED; i++) {
		struct sosc_ruby_row *row = &rows[((hash >> 40) + i) & (ROWS - 1)];

		if (!row->count) {
			row->origin = origin;
			row->type = type;
		}
		if (row->origin == origin && row->type == type)
			return row;
	}
	return NULL;
}

static uint32_t type_of(sosc_value object)
{
	uint32_t kind = sosc_ruby_kind(object);
	sosc_value class = sosc_ruby_has_class(kind) ? sosc_ruby_class(object) : 0;
	uint32_t at;

	if (class && kind == KIND_CLASS && sosc_rb.rb_objspace_internal_object_p(object))
		class = 0; // a singleton class that no program can have seen
	at = class ? sosc_ruby_type_meet(class) : SOSC_RUBY_TYPES;

	return at == SOSC_RUBY_TYPES ? kind : SOSC_RUBY_BUILTIN + at;
}

static bool is_object(uint32_t kind)
{
	return kind != KIND_NONE && kind != KIND_ZOMBIE && kind != KIND_MOVED;
}

static void add(sosc_value object, uint32_t word)
{
	uint32_t kind = sosc_ruby_kind(object);
	struct sosc_ruby_row *row;
	uint64_t size, square;

	if (!is_object(kind))
		return;
	seen++;
	row = row_of(word & SOSC_SIDE_ORIGIN, type_of(object));
	if (!row) {
		lost++;
		return;
	}
	row->count++;
	if (kind == KIND_NODE) // Ruby does not tell the size of a node
		return;
	size = sosc_rb.rb_obj_memsize_of(object);
	row->bytes += size;
	if (__builtin_mul_overflow(size, size, &square) ||
	    __builtin_add_overflow(row->squares, square, &row->squares))
		row->squares = UINT64_MAX;
}

// Called by ObjectSpace's walk for some slots of a page.
static int slots(void *start, void *end, size_t stride, void *data)
{
	(void)data;
	for (uint64_t at = (uint64_t)start; at < (uint64_t)end; at += stride) {
		const uint32_t *word = sosc_side_at(at);

		if (word && *word & SOSC_SIDE_USED && !(*word & without))
			add(at, *word);
	}
	return 0;
}

/**
 * Make rows of live objects, and get the names of their classes. Objects with one of the bits @bits
 * in their words are left out. Return whether there was memory for it.
 */
bool sosc_ruby_count(uint32_t bits, struct sosc_ruby_rows *counted)
{
	bool was_off;

	rows = sosc_mmap(NULL, sizeof(*rows) * ROWS, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sosc_mmap_failed(rows))
		return false;
	was_off = sosc_rb.rb_gc_disable() != 0; // so classes live until their names are known
	without = bits;
	seen = lost = 0;
	sosc_ruby_types_walk();
	sosc_rb.rb_objspace_each_objects(slots, NULL);
	sosc_ruby_types_walked();
	if (!was_off)
		(void)sosc_rb.rb_gc_enable();
	*counted = (struct sosc_ruby_rows){rows, ROWS, lost};
	return true;
}

/** The rows are not needed any more. */
void sosc_ruby_rows_free(const struct sosc_ruby_rows *counted)
{
	(void)sosc_sys3(SYS_MUNMAP, (long)counted->rows, (long)(sizeof(*rows) * ROWS), 0);
}

/** Make rows of all live objects for soscope. The program's objects are not counted any more. */
void sosc_ruby_look(void)
{
	struct sosc_ruby_rows counted;
	uint64_t known;
	bool has_memory;

	sosc_ruby_looks = true; // objects made while names are read are not the program's
	sosc_objects_count = false;
	has_memory = sosc_ruby_count(0, &counted);
	sosc_ruby_looks = false;
	if (!has_memory)
		return;
	sosc_ruby.rows = (uint64_t)counted.rows;
	sosc_ruby.row_count = counted.count;
	sosc_ruby.rows_lost = counted.lost;
	known = sosc_objects_tally.created - sosc_objects_tally.destroyed;
	if (sosc_ruby_has_compacted && known > seen)
		sosc_ruby.moved = known - seen;
}

// ---- single objects ----------------------------------------------------------------------

static struct sosc_ruby_place *places; // NULL while objects are only counted
static uint64_t place_count;

static int place_slots(void *start, void *end, size_t stride, void *data)
{
	(void)data;
	for (uint64_t at = (uint64_t)start; at < (uint64_t)end; at += stride) {
		const uint32_t *word = sosc_side_at(at);

		if (!word || !(*word & SOSC_SIDE_USED) || *word & without ||
		    !is_object(sosc_ruby_kind(at)))
			continue;
		if (places)
			places[place_count] =
				(struct sosc_ruby_place){at, *word & SOSC_SIDE_ORIGIN, type_of(at)};
		place_count++;
	}
	return 0;
}

static void walk_places(struct sosc_ruby_place *to)
{
	places = to;
	place_count = 0;
	sosc_rb.rb_objspace_each_objects(place_slots, NULL);
}

/**
 * Note where live objects were made, in the order of Ruby's walk. @bits: see sosc_ruby_count.
 * Return whether there was memory for it.
 */
bool sosc_ruby_places(uint32_t bits, struct sosc_ruby_places *taken)
{
	bool was_off = sosc_rb.rb_gc_disable() != 0, has_memory;

	without = bits;
	sosc_ruby_types_walk();
	walk_places(NULL);
	taken->size = (place_count + 1) * sizeof(*places);
	taken->places = sosc_mmap(NULL, taken->size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	has_memory = !sosc_mmap_failed(taken->places);
	if (has_memory) {
		walk_places(taken->places);
		taken->count = place_count;
		sosc_ruby_types_walked();
	}
	if (!was_off)
		(void)sosc_rb.rb_gc_enable();
	return has_memory;
}

/** The places are not needed any more. */
void sosc_ruby_places_free(const struct sosc_ruby_places *taken)
{
	(void)sosc_sys3(SYS_MUNMAP, (long)taken->places, (long)taken->size, 0);
}

// ---- objects older than the hooks -----------------------------------------------------

static int older_slots(void *start, void *end, size_t stride, void *data)
{
	(void)data;
	for (uint64_t at = (uint64_t)start; at < (uint64_t)end; at += stride) {
		uint32_t kind = sosc_ruby_kind(at),
			 *word = is_object(kind) ? sosc_side_make(at) : NULL;

		if (!word || *word)
			continue;
		*word = SOSC_SIDE_USED | (at & 8 ? 3u : 0u) << SOSC_SIDE_SHIFT | ORIGIN_NOWHERE;
		(void)type_of(at);
	}
	return 0;
}

/** Note all objects that exist. They have no origin. */
void sosc_ruby_take_older(void)
{
	bool was_off = sosc_rb.rb_gc_disable() != 0;

	sosc_ruby_types_walk();
	sosc_rb.rb_objspace_each_objects(older_slots, NULL);
	sosc_ruby_types_walked();
	if (!was_off)
		(void)sosc_rb.rb_gc_enable();
}
