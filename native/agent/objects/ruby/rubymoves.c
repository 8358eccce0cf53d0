// SPDX-License-Identifier: Apache-2.0
// Compaction changes the addresses of objects. When all objects have been moved, Ruby calls each
// object of a data type to let it correct the addresses that it holds. So the agent has such an
// object, which corrects the agent's tables. It has no class, so that no program finds it.

#include "base/memory.h"
#include "base/sys.h"
#include "objects/ruby/ruby.h"

enum {
	PAGE = 4096,
	CELL = 16, // bytes of the address space that share a word of the side table
};

bool sosc_ruby_has_compacted;

static struct { // rb_data_type_t
	const char *name;
	void (*mark)(void *data);
	void (*free)(void *data);
	size_t (*size)(const void *data);
	void (*compact)(void *data);
	void *reserved;
	const void *parent;
	void *data;
	uint64_t flags;
} data_type;

static sosc_value watcher;
static uint32_t process;

static bool is_readable(uint64_t addr)
{
	uint8_t byte;

	return sosc_read(process, &byte, addr, 1) == 1;
}

static void follow(uint64_t cell, uint32_t *word)
{
	sosc_value object = cell + (*word >> SOSC_SIDE_SHIFT & 3 ? 8 : 0), there;
	uint32_t *other;

	if (sosc_ruby_kind(object) != KIND_MOVED)
		return;
	there = sosc_rb.rb_gc_location(object);
	other = sosc_side_make(there);
	if (other)
		*other = SOSC_SIDE_USED | (there & 8 ? 3u : 0u) << SOSC_SIDE_SHIFT |
			 (*word & (SOSC_SIDE_ORIGIN | SOSC_SIDE_OLDER));
	*word = 0;
}

static void follow_all(uint64_t start, uint32_t *words)
{
	bool readable = false;
	uint64_t page = 0;

	for (uint32_t i = 0; i < SOSC_SIDE_WORDS; i++) {
		uint64_t cell = start + (uint64_t)i * CELL;

		if (!words[i])
			continue;
		if (page != cell / PAGE) {
			page = cell / PAGE;
			readable = is_readable(cell);
		}
		if (readable)
			follow(cell, &words[i]);
	}
}

static void follow_classes(void)
{
	for (uint32_t i = 0; i < SOSC_RUBY_TYPES; i++) {
		sosc_value class = sosc_ruby_types[i].class, there;

		if (class <= SOSC_RUBY_FREED || !is_readable(class) ||
		    sosc_ruby_kind(class) != KIND_MOVED)
			continue;
		there = sosc_rb.rb_gc_location(class);
		if (sosc_ruby_is_class(there))
			sosc_ruby_type_move(i, there);
	}
}

static void moved(void *unused)
{
	(void)unused;
	if (!sosc_objects_count)
		return;
	process = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	sosc_ruby_has_compacted = true;
	for (uint64_t top = 0; top < SOSC_SIDE_TOPS; top++)
		for (uint64_t leaf = 0; sosc_side[top] && leaf < SOSC_SIDE_LEAVES; leaf++)
			if (sosc_side[top][leaf])
				follow_all(top << 34 | leaf << 20, sosc_side[top][leaf]);
	follow_classes();
}

static void mark(void *unused)
{
	(void)unused;
	sosc_ruby_types_keep();
}

/** From now on the tables are corrected after each compaction. The thread holds the GVL. */
void sosc_ruby_hear_of_moves(void)
{
	data_type.name = "soscope";
	data_type.compact = moved;
	data_type.mark = mark;
	sosc_rb.rb_gc_register_address(&watcher);
	watcher = sosc_rb.rb_data_typed_object_wrap(0, &data_type, &data_type);
}
