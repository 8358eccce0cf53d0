// SPDX-License-Identifier: Apache-2.0
// A list of all objects of CPython, made for a separate process: all that the garbage collector
// tracks, all that were made since objects are counted, and all that these refer to, however old.
//
// Garbage is found by the collector's own method, but nothing is collected, since finalizers are
// code of the program. An object is referenced from outside if its reference count is higher than
// the number of references from other objects. An object that cannot be reached from such an object
// is garbage.

#include "base/sys.h"
#include "call/handler.h"
#include "objects/python/python.h"
#include "vm/origin.h"

enum {
	TYPE = 8, // ob_type
	LIST_SIZE = 16, // of a list: offset of its length, and of the pointer to its items
	LIST_ITEMS = 24,
	TYPE_FLAGS = 168, // offsets and flags that are the same in all versions
	TYPE_TRAVERSE = 184,
	TYPE_IS_GC = 328,
	TYPE_HEAP = 1 << 9,
	TYPE_HAS_GC = 1 << 14,
	TYPE_BUILTIN = 1 << 25 | 1 << 26 | 1 << 29, // lists, tuples, dicts
	ROOM_FIRST = 1 << 20, // objects
	SIGNALS_SIZE = 8, // bytes of a signal set
};

// Bits of the words in the table of marks.
enum {
	LISTED = 1u << 31,
	ASKED = 1 << 30, // its references are counted
	COUNT = (1 << 30) - 1,
	COUNT_MAX = 1 << 29, // or more: the object is immortal
};

typedef int visitor(void *object, void *argument);
typedef int inquiry(void *object);
typedef int traversal(void *object, visitor *visit, void *argument);
typedef void *callable(void *function, ...);
typedef void ask(uint64_t object);

// has the form of the side table, but is indexed by the address of the object itself
static uint32_t **marks[SOSC_SIDE_TOPS];
static struct sosc_program_object *list;
static uint64_t room, count, lost;
static ask *each_asked;

static inline uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static void *map(uint64_t size)
{
	void *made = sosc_mmap(NULL, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sosc_mmap_failed(made) ? NULL : made;
}

// Returns the mark of an object, or NULL if there is no memory for it.
static uint32_t *mark_of(uint64_t object)
{
	uint64_t top = object >> 34, leaf = object >> 20 & (SOSC_SIDE_LEAVES - 1);

	if (top >= SOSC_SIDE_TOPS)
		return NULL;
	if (!marks[top])
		marks[top] = map(sizeof(*marks[top]) * SOSC_SIDE_LEAVES);
	if (!marks[top])
		return NULL;
	if (!marks[top][leaf])
		marks[top][leaf] = map(sizeof(*marks[top][leaf]) * SOSC_SIDE_WORDS);
	return marks[top][leaf] ? &marks[top][leaf][object >> 4 & (SOSC_SIDE_WORDS - 1)] : NULL;
}

// ---- kinds of objects ------------------------------------------------------------

static uint64_t flags_of(uint64_t object)
{
	return word_at(word_at(object + TYPE) + TYPE_FLAGS);
}

// The type of static types has the flag for objects with a collector's header, but static types
// have none.
static bool has_gc(uint64_t object)
{
	inquiry *is_gc = (inquiry *)word_at(word_at(object + TYPE) + TYPE_IS_GC);

	return flags_of(object) & TYPE_HAS_GC && (!is_gc || is_gc((void *)object));
}

// Returns whether the object's traverse function can be called although nothing may refer to the
// object. It could still be under construction by an extension.
static bool is_whole(uint64_t object)
{
	bool is_builtin = !(word_at(word_at(object + TYPE) + TYPE_FLAGS) & TYPE_HEAP) &&
			  flags_of(object) & TYPE_BUILTIN;

	return is_builtin || (has_gc(object) && word_at(object - SOSC_PYTHON_HEAD));
}

static void traverse(uint64_t object, visitor *visit)
{
	traversal *function = (traversal *)word_at(word_at(object + TYPE) + TYPE_TRAVERSE);

	if (function && has_gc(object))
		(void)function((void *)object, visit, NULL);
}

// ---- the list --------------------------------------------------------------------

static bool make_room(void)
{
	uint64_t size = sizeof(*list) * room;
	void *made;

	if (count < room)
		return true;
	made = room ? (void *)sosc_sys6(SYS_MREMAP, (long)list, (long)size, (long)size * 2,
					MREMAP_MAYMOVE, 0, 0) :
		      map(sizeof(*list) * ROOM_FIRST);
	if (!made || sosc_mmap_failed(made))
		return false;
	list = made;
	room = room ? room * 2 : ROOM_FIRST;
	return true;
}

static void add(uint64_t object, bool is_referred)
{
	uint32_t *mark = mark_of(object);

	if (mark && *mark & LISTED)
		return;
	if (!mark || !make_room()) {
		lost++;
		return;
	}
	*mark |= LISTED;
	list[count++] = (struct sosc_program_object){
		.addr = object,
		.whole = is_referred || is_whole(object),
	};
}

static int visit_to_add(void *object, void *unused)
{
	(void)unused;
	if (object)
		add((uint64_t)object, true);
	return 0;
}

// Adds the objects that objects of the list refer to, from index @from on.
static void add_referred(uint64_t from)
{
	for (uint64_t i = from; i < count; i++) {
		uint64_t object = list[i].addr;

		add(word_at(object + TYPE), true);
		if (list[i].whole)
			traverse(object, visit_to_add);
	}
}

// ---- garbage ---------------------------------------------------------------------

static void count_references(uint64_t object, uint64_t others)
{
	uint32_t *mark = mark_of(object), references = *(const uint32_t *)object;

	if (!mark || *mark & (LISTED | ASKED))
		return;
	*mark |= ASKED | (references < COUNT_MAX ? references - (uint32_t)others : COUNT_MAX);
}

static int visit_to_count(void *object, void *unused)
{
	uint32_t *mark = object ? mark_of((uint64_t)object) : NULL;

	(void)unused;
	if (mark && *mark & ASKED && *mark & COUNT && (*mark & COUNT) < COUNT_MAX)
		(*mark)--;
	return 0;
}

static void count_listed(uint64_t object)
{
	count_references(object, 1); // the list itself holds one reference
}

static void count_known(uint64_t object)
{
	count_references(object, 0);
}

static void take_off(uint64_t object)
{
	const uint32_t *mark = mark_of(object);

	if (mark && *mark & ASKED && is_whole(object))
		traverse(object, visit_to_count);
}

static void add_asked(uint64_t object)
{
	const uint32_t *mark = mark_of(object);

	if (!mark || !(*mark & ASKED) || *mark & COUNT)
		add(object, false);
}

// ---- which objects exist ---------------------------------------------------------

// An extension may have freed an object's memory unnoticed, and the memory may hold something else
// now. The agent would not have noted that in this form: it has no valid type, or begins at another
// offset in its block.
static bool is_itself(uint64_t object, uint32_t word, uint64_t type)
{
	return sosc_python_is_type(type) &&
	       sosc_python_shift(object) == (word >> SOSC_SIDE_SHIFT & 3);
}

// Skips older objects: they were found through what the collector tracks, which is done here as
// well. Besides, the word of a static object does not tell where in its 16 bytes the object begins.
static void ask_known(uint64_t block, uint32_t *word, void *unused)
{
	uint64_t object = sosc_python_object(block, *word), head[2];
	bool is_made = *word & SOSC_SIDE_SINCE || (*word & SOSC_SIDE_ORIGIN) >= ORIGINS_FIRST;

	(void)unused;
	if (is_made && sosc_python_is_alive(object, *word, head) &&
	    is_itself(object, *word, head[1]))
		each_asked(object);
}

static void for_known(ask *function)
{
	each_asked = function;
	sosc_side_each(ask_known, NULL);
}

static void for_listed(const void *objects, ask *function)
{
	uint64_t many = objects ? word_at((uint64_t)objects + LIST_SIZE) : 0;
	const uint64_t *items = objects ? (const void *)word_at((uint64_t)objects + LIST_ITEMS) :
					  NULL;

	for (uint64_t i = 0; i < many; i++)
		function(items[i]);
}

static void leave_out(const uint64_t *objects)
{
	for (; objects && *objects; objects++) {
		uint32_t *mark = mark_of(*objects);

		if (mark)
			*mark |= LISTED;
	}
}

static uint32_t word_of(uint64_t object)
{
	uint64_t head = (uint64_t)sosc_python_shift(object) * SOSC_PYTHON_HEAD;
	const uint32_t *word = sosc_side_at(object - head);

	return word ? *word : 0;
}

// Adds the origins. Leaves out older objects if they are not asked for.
static uint64_t choose(bool is_all, bool counted)
{
	uint64_t chosen = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t word = counted ? word_of(list[i].addr) : 0;

		list[i].origin = word & SOSC_SIDE_ORIGIN;
		if (is_all || word & SOSC_SIDE_SINCE)
			list[chosen++] = list[i];
	}
	return chosen;
}

/**
 * Make a list of objects, and give each of them one more reference. @counted: objects are counted,
 * so the objects that were made are known.
 */
void sosc_python_heap(const struct sosc_program *program, struct sosc_program_dump *dump,
		      bool counted)
{
	void *objects = ((callable *)dump->call)((void *)dump->get_objects, NULL);
	void (*keep)(uint64_t object) = (void (*)(uint64_t))dump->keep;
	uint64_t listed;

	sosc_python_look_anew();
	leave_out((uint64_t[]){(uint64_t)objects, 0});
	leave_out((const uint64_t *)program->left_out);
	if (dump->flags & SOSC_DUMP_REACHABLE) {
		for_listed(objects, count_listed);
		if (counted)
			for_known(count_known);
		for_listed(objects, take_off);
		if (counted)
			for_known(take_off);
	}
	for_listed(objects, add_asked);
	add_referred(0);
	listed = count;
	if (counted)
		for_known(add_asked);
	add_referred(listed);
	for (uint64_t i = 0; i < count; i++)
		keep(list[i].addr);
	dump->object_count = choose(dump->flags & SOSC_DUMP_ALL, counted);
	dump->objects = (uint64_t)list;
	dump->lost = objects ? lost : lost + 1;
}

// ---- the child --------------------------------------------------------------------
//
// The child writes the objects out while the program goes on. The program does not notice this
// child, as a process in between forks it (sosc_fork_apart).
//
// The list of objects is made before PyOS_AfterFork_Child is called, as that ends the states of the
// other threads. Each object has one reference more, so this frees no object of the program, and
// none of the program's finalizers runs.

static void in_child(struct sosc_program *program, struct sosc_program_dump *dump)
{
	callable *call = (callable *)dump->call;
	bool counted = sosc_objects_count;

	dump->between = dump->child = 0;
	sosc_objects_count = false; // objects that the child makes are not the program's
	(void)call((void *)dump->disable, NULL);
	sosc_python_heap(program, dump, counted);
	program->origins = sosc_objects_tally.origins;
	program->origin_count = counted ? sosc_objects_tally.origin_count : 0;
	((void (*)(void))dump->after_child)();
}

/** Fork a child that has a list of objects and that nobody notices: all its signals are blocked. */
void sosc_python_child(struct sosc_program *program)
{
	struct sosc_program_dump *dump = (struct sosc_program_dump *)program->dump;
	uint64_t all = ~0ull, before;

	dump->child = -1;
	((void (*)(void))dump->before)();
	(void)sosc_sys6(SYS_RT_SIGPROCMASK, SIG_SETMASK, (long)&all, (long)&before, SIGNALS_SIZE, 0,
			0);
	dump->between = sosc_fork_apart(dump->fork, &dump->child);
	if (dump->between == 0) {
		in_child(program, dump);
		return;
	}
	(void)sosc_sys6(SYS_RT_SIGPROCMASK, SIG_SETMASK, (long)&before, 0, SIGNALS_SIZE, 0, 0);
	((void (*)(void))dump->after_parent)();
}
