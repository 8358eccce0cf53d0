// SPDX-License-Identifier: Apache-2.0
// Names of the classes that have had objects. Ruby may be asked for them only when it runs nothing
// else. So a class is noted at its first object, and its name is asked for soon afterwards. The
// names can still be read from outside when the process is killed.
//
// The addresses of classes belong to Ruby's garbage collector. A class is forgotten when the
// collector frees it, and all are forgotten when the collector's events are no longer observed.
// Even so the free of a class may not be reported. So Ruby is only asked about classes that
// certainly exist: waiting classes, which the collector is told to keep, and classes of which a
// walk over the heap has just met an object.

#include "base/memory.h"
#include "base/sys.h"
#include "objects/ruby/ruby.h"

enum {
	WAITING = 1024,
	NAME_MAX = 4096, // bytes
	NIL_MAX = 8, // nil is 4 or 8
	PIECE = 1 << 16, // bytes of memory from which room for names is taken
};

struct piece {
	struct piece *next;
	uint8_t names[PIECE - sizeof(void *)];
};

struct sosc_ruby_type *sosc_ruby_types;

static sosc_value waiting[WAITING]; // classes whose names are still to be asked for
static uint32_t waiting_count;
static bool met[SOSC_RUBY_TYPES]; // by index: the latest walk has met an object of the class
// the piece that is being filled, NULL if there is none yet
static struct piece *first_piece, *piece;
static uint32_t filled; // bytes that are used of it

/**
 * Begin without any class. From now on Ruby reports which classes it frees. Return whether there is
 * memory for them.
 */
bool sosc_ruby_types_begin(void)
{
	sosc_ruby_types_end();
	if (sosc_ruby_types)
		(void)sosc_sys3(SYS_MADVISE, (long)sosc_ruby_types,
				sizeof(*sosc_ruby_types) * SOSC_RUBY_TYPES, MADV_DONTNEED);
	else
		sosc_ruby_types = sosc_memory_map(sizeof(*sosc_ruby_types) * SOSC_RUBY_TYPES);
	sosc_ruby.types = (uint64_t)sosc_ruby_types;
	piece = first_piece;
	filled = 0;
	return sosc_ruby_types;
}

/** Ruby does not report any more which classes it frees. Names stay for soscope's last look. */
void sosc_ruby_types_end(void)
{
	for (uint32_t i = 0; sosc_ruby_types && i < SOSC_RUBY_TYPES; i++)
		if (sosc_ruby_types[i].class)
			sosc_ruby_types[i].class = SOSC_RUBY_FREED;
	waiting_count = 0;
}

/** The agent rests: unmap all that was kept about classes. */
void sosc_ruby_types_rest(void)
{
	sosc_memory_unmap(sosc_ruby_types, sizeof(*sosc_ruby_types) * SOSC_RUBY_TYPES);
	while (first_piece) {
		struct piece *next = first_piece->next;

		sosc_memory_unmap(first_piece, sizeof(*first_piece));
		first_piece = next;
	}
	sosc_ruby_types = NULL;
	sosc_ruby.types = 0;
	waiting_count = 0;
	piece = NULL;
	sosc_memory_clear(met, sizeof(met));
}

// Takes the next piece to fill: one of an earlier session, or a new one.
static bool take_piece(void)
{
	struct piece **next = piece ? &piece->next : &first_piece;
	void *made = *next;

	if (!made)
		made = sosc_memory_map(sizeof(**next));
	if (!made)
		return false;
	*next = piece = made;
	filled = 0;
	return true;
}

static uint64_t copy_of(const char *name, uint32_t size)
{
	uint8_t *taken;

	if ((!piece || sizeof(piece->names) - filled < size) && !take_piece())
		return 0;
	taken = piece->names + filled;
	memcpy(taken, name, size);
	filled += size;
	return (uint64_t)taken;
}

static bool is_there(const struct sosc_ruby_type *type)
{
	return type->class > SOSC_RUBY_FREED;
}

// Returns the index of @class, or of a free entry for it. Returns SOSC_RUBY_TYPES if there is no
// room.
static uint32_t place_for(sosc_value class)
{
	uint32_t first = sosc_ruby_type_first(class), room = SOSC_RUBY_TYPES;

	if (!sosc_ruby_types) // the agent rests, but Ruby still reports what it frees
		return SOSC_RUBY_TYPES;
	for (uint32_t i = 0; i < TYPES_TRIED; i++) {
		uint32_t at = (first + i) & (SOSC_RUBY_TYPES - 1);
		uint64_t there = sosc_ruby_types[at].class;

		if (there == class)
			return at;
		if (room == SOSC_RUBY_TYPES && there <= SOSC_RUBY_FREED)
			room = at;
		if (!there)
			break;
	}
	return room;
}

static void make(uint32_t at, sosc_value class)
{
	struct sosc_ruby_type *type = &sosc_ruby_types[at];

	type->name = 0;
	type->size = 0;
	type->asked = 0;
	__atomic_store_n(&type->class, class, __ATOMIC_RELEASE);
}

/**
 * An object of @class is made. If the class is new, it waits until its name is asked for. If too
 * many classes are waiting, it is noted at a later object. Return whether any class is waiting.
 */
bool sosc_ruby_type_note(sosc_value class)
{
	uint32_t at = waiting_count < WAITING ? place_for(class) : SOSC_RUBY_TYPES;

	if (at < SOSC_RUBY_TYPES && !is_there(&sosc_ruby_types[at])) {
		make(at, class);
		waiting[waiting_count++] = class;
	}
	return waiting_count > 0;
}

/** A walk has met an object of @class. Return its index, or SOSC_RUBY_TYPES if there is no room. */
uint32_t sosc_ruby_type_meet(sosc_value class)
{
	uint32_t at = place_for(class);

	if (at == SOSC_RUBY_TYPES)
		return at;
	if (!is_there(&sosc_ruby_types[at]))
		make(at, class);
	met[at] = true;
	return at;
}

/** The class at index @at has another address now. */
void sosc_ruby_type_move(uint32_t at, sosc_value class)
{
	struct sosc_ruby_type was = sosc_ruby_types[at];
	uint32_t place;

	for (uint32_t i = 0; i < waiting_count; i++)
		if (waiting[i] == was.class)
			waiting[i] = class;
	sosc_ruby_types[at].class = SOSC_RUBY_FREED;
	place = place_for(class);
	if (place == SOSC_RUBY_TYPES)
		return;
	was.class = class;
	sosc_ruby_types[place] = was;
}

/** A class is about to be freed, or was made at the address of a former class. */
void sosc_ruby_types_forget(sosc_value class)
{
	uint32_t at = place_for(class);

	if (at < SOSC_RUBY_TYPES && is_there(&sosc_ruby_types[at]))
		sosc_ruby_types[at].class = SOSC_RUBY_FREED;
	for (uint32_t i = 0; i < waiting_count; i++)
		if (waiting[i] == class)
			waiting[i--] = waiting[--waiting_count];
}

/**
 * Called when Ruby marks what it keeps: waiting classes must live until their names are asked for.
 */
void sosc_ruby_types_keep(void)
{
	for (uint32_t i = 0; i < waiting_count; i++)
		sosc_rb.rb_gc_mark(waiting[i]);
}

// A singleton class has the name of the class behind it.
static void ask(struct sosc_ruby_type *type)
{
	volatile sosc_value name;
	const char *text;
	long size;

	type->asked = 1;
	name = sosc_rb.rb_class_real(type->class);
	name = name ? sosc_rb.rb_mod_name(name) : 0;
	if (name <= NIL_MAX || name & 7 || sosc_ruby_kind(name) != KIND_STRING)
		return; // nil: the class has no name
	size = (long)sosc_rb.rb_str_length(name) >> 1; // a Fixnum
	text = sosc_rb.rb_string_value_ptr(&name);
	if (size <= 0 || size > NAME_MAX)
		return;
	type->name = copy_of(text, (uint32_t)size);
	__atomic_store_n(&type->size, type->name ? (uint32_t)size : 0, __ATOMIC_RELEASE);
}

/** Ask Ruby for the names of waiting classes. The thread holds the GVL, and may make objects. */
void sosc_ruby_types_ask(void)
{
	for (uint32_t i = 0; i < waiting_count; i++) {
		uint32_t at = place_for(waiting[i]);

		if (at < SOSC_RUBY_TYPES && sosc_ruby_types[at].class == waiting[i])
			ask(&sosc_ruby_types[at]);
	}
	waiting_count = 0;
}

/** A walk over all objects begins. Ruby must not collect garbage until sosc_ruby_types_walked. */
void sosc_ruby_types_walk(void)
{
	memset(met, 0, sizeof(met));
}

/**
 * The walk is over: ask Ruby for the names of the classes that it has met and that have no name
 * yet.
 */
void sosc_ruby_types_walked(void)
{
	for (uint32_t i = 0; i < SOSC_RUBY_TYPES; i++)
		if (met[i] && is_there(&sosc_ruby_types[i]) && !sosc_ruby_types[i].name)
			ask(&sosc_ruby_types[i]);
}
