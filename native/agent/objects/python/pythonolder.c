// SPDX-License-Identifier: Apache-2.0
// Objects that are older than our coming: those that the collector knows, and what they refer to.
// They get no origin. An object that it does not know, and that no other one refers to by its
// traverse function, stays unseen.

#include "objects/python/python.h"
#include "vm/origin.h"

enum {
	TYPE = 8, // ob_type
	LIST_SIZE = 16, // of a list: how many, and where
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

// Static types are of a type whose objects have a head of the collector's, and have none.
static bool has_gc(uint64_t object)
{
	inquiry *ask = (inquiry *)word_at(word_at(object + TYPE) + TYPE_IS_GC);

	return may_have_gc(object) && (!ask || ask((void *)object));
}

// Whether it was not known yet.
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

// One that has a traverse function, and that the collector does not know, holds only others that
// have none, or such as itself.
static int visit(void *object, void *depth)
{
	bool is_static = object && may_have_gc((uint64_t)object) && !has_gc((uint64_t)object);

	if (object && !is_static && mark((uint64_t)object))
		visit_all((uint64_t)object, (uint64_t)depth + 1);
	return 0;
}

/** Take note of all objects that there are; the interpreter's lock is held. */
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
