// SPDX-License-Identifier: Apache-2.0
// Objects that are older than the agent's hooks: those that the garbage collector tracks, and what
// these refer to. They get no origin. An object that the collector does not track, and that no
// traverse function of another object visits, is not found.

#include "objects/python/python.h"
#include "vm/origin.h"

enum {
	TYPE = 8, // ob_type
	LIST_SIZE = 16, // of a list: offset of its length, and of the pointer to its items
	LIST_ITEMS = 24,
	TYPE_TRAVERSE = 184, // tp_traverse and tp_is_gc: the same in all versions
	TYPE_IS_GC = 328,
	TYPE_HAS_GC = 1 << 14, // Py_TPFLAGS_HAVE_GC
	DEEPEST = 64,
};

typedef int visitor(void *object, void *argument);
typedef int inquiry(void *object);
typedef int traversal(void *object, visitor *visit, void *argument);

static inline uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static bool may_have_gc(uint64_t object)
{
	return word_at(word_at(object + TYPE) + sosc_python_layout.type_flags) & TYPE_HAS_GC;
}

// The type of static types has the flag for objects with a collector's header, but static types
// have none.
static bool has_gc(uint64_t object)
{
	inquiry *ask = (inquiry *)word_at(word_at(object + TYPE) + TYPE_IS_GC);

	return may_have_gc(object) && (!ask || ask((void *)object));
}

// Returns false if the object was known already, or if there is no memory for its word.
static bool mark(uint64_t object)
{
	uint32_t shift = sosc_python_shift(object);
	uint64_t block = object - (uint64_t)shift * SOSC_PYTHON_HEAD;
	uint32_t *word = sosc_side_make(block);

	if (!word || *word)
		return false;
	*word = SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | ORIGIN_NOWHERE;
	return true;
}

static int visit(void *object, void *depth);

static void visit_all(uint64_t object, uint64_t depth)
{
	traversal *traverse = (traversal *)word_at(word_at(object + TYPE) + TYPE_TRAVERSE);

	if (traverse && depth <= DEEPEST && has_gc(object))
		(void)traverse((void *)object, visit, (void *)depth);
}

// A static type has a traverse function, but the collector does not track it. It only holds objects
// that have no traverse function, and other static types.
static int visit(void *object, void *depth)
{
	bool is_static = object && may_have_gc((uint64_t)object) && !has_gc((uint64_t)object);

	if (object && !is_static && mark((uint64_t)object))
		visit_all((uint64_t)object, (uint64_t)depth + 1);
	return 0;
}

/** Note all objects that exist. The caller holds the interpreter's lock. */
bool sosc_python_mark_older(void)
{
	void *module = sosc_python.PyImport_ImportModule("gc");
	void *get = module ? sosc_python.PyObject_GetAttrString(module, "get_objects") : NULL;
	void *list = get ? sosc_python.PyObject_CallFunctionObjArgs(get, NULL) : NULL;
	bool is_list = list && sosc_python_is_a(list, sosc_python.PyList_Type);
	uint64_t count = is_list ? word_at((uint64_t)list + LIST_SIZE) : 0;
	const uint64_t *items = is_list ? (const uint64_t *)word_at((uint64_t)list + LIST_ITEMS) :
					  NULL;

	for (uint64_t i = 0; i < count; i++)
		(void)mark(items[i]);
	for (uint64_t i = 0; i < count; i++)
		visit_all(items[i], 0);
	for (int i = 0; i < 3; i++) {
		void *object = i == 0 ? list : i == 1 ? get : module;

		if (object)
			sosc_python.Py_DecRef(object);
	}
	if (!list)
		sosc_python.PyErr_Clear();
	return is_list;
}
