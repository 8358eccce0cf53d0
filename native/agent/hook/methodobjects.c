// SPDX-License-Identifier: Apache-2.0
// Python's objects for C functions (PyCFunctionObject) are hashed and compared by the function's
// address, which they read from the method table. A key of a dict must still be found after the
// table is hooked, and again after it is unhooked. So the two functions of their type that read the
// address are replaced by the functions here, which call the originals with a view of the unhooked
// table. When an agent is taken out, words that lead into the agent's own code are restored last:
// these functions stay as long as any table is hooked.

#include "base/state.h"
#include "call/cell.h"
#include "hook/methods.h"
#include "image/changes.h"
#include "image/image.h"
#include "image/lookup.h"

enum { // offsets in CPython's PyTypeObject, in bytes
	TP_NAME = 24,
	TP_HASH = 120,
	TP_RICHCOMPARE = 200,
};

struct object { // PyCFunctionObject, as far as the original functions read it
	uint64_t refcount, type;
	struct sosc_method_def *def;
	uint64_t self;
	uint64_t others[4];
};

struct view { // a copy of one with its unhooked function
	struct object object;
	struct sosc_method_def def;
};

static uint64_t known; // addr of PyCFunction_Type
static uint64_t real_hash, real_compare; // functions of the interpreter

static uint64_t *field(uint64_t type, uint64_t offset)
{
	return (uint64_t *)(type + offset);
}

// Returns the function to which a hooked word leads in the end.
static uint64_t real_function(uint64_t function)
{
	while (sosc_leads_on(sosc_base, function))
		function = __atomic_load_n((uint64_t *)(function + SOSC_DISTANCE + CELL_ORIGINAL),
					   __ATOMIC_ACQUIRE);
	return function;
}

// Makes the view that is passed to the original function, so that the original does not read the
// table, which may be hooked meanwhile.
static void *as_it_would_be(const struct object *object, struct view *view)
{
	memset(view, 0, sizeof(*view));
	view->object.refcount = object->refcount;
	view->object.type = object->type;
	view->object.self = object->self;
	view->object.def = &view->def;
	view->def = *object->def;
	view->def.function = real_function(view->def.function);
	return &view->object;
}

static int64_t hash(struct object *object)
{
	struct view view;

	return ((int64_t (*)(void *))real_hash)(as_it_would_be(object, &view));
}

static bool is_function(const struct object *object)
{
	return *field(object->type, TP_RICHCOMPARE) == *field(known, TP_RICHCOMPARE);
}

static void *compare(struct object *one, struct object *other, int how)
{
	void *(*real)(void *, void *, int) = (void *(*)(void *, void *, int))real_compare;
	struct view views[2];
	void *second = is_function(other) ? as_it_would_be(other, &views[1]) : other;

	return real(as_it_would_be(one, &views[0]), second, how);
}

static uint64_t find_type(uint32_t ns, const char *name, struct sosc_loaded **provider)
{
	const Elf64_Sym *symbol = sosc_lookup_all(ns, name, NULL, provider);

	return symbol ? (*provider)->bias + symbol->st_value : 0;
}

// Returns whether this is the type, laid out as in builds that soscope knows.
static bool is_the_type(uint64_t type)
{
	const char *name = (const char *)*field(type, TP_NAME);
	const struct sosc_loaded *image = sosc_image_of((uint64_t)name);

	return image && sosc_segment_flags(image, (uint64_t)name) & PF_R &&
	       sosc_same(name, "builtin_function_or_method");
}

static uint64_t real_value(uint64_t value, uint64_t ours, uint64_t real)
{
	return value == ours ? real : value;
}

/**
 * Return the image of the namespace's Python. Return NULL if there is none, or if it is another
 * Python than the one already in use.
 */
struct sosc_loaded *sosc_interpreter(uint32_t ns)
{
	struct sosc_loaded *image;
	uint64_t type = find_type(ns, "PyCFunction_Type", &image), function;

	if (!type || !is_the_type(type) || (known && known != type && sosc_image_of(known)))
		return NULL;
	function = real_value(*field(type, TP_HASH), (uint64_t)hash, real_hash);
	image = sosc_image_of(function);
	return image && sosc_addr_executable(image, function) ? image : NULL;
}

/** Return whether the namespace contains any Python. */
bool sosc_has_interpreter(uint32_t ns)
{
	struct sosc_loaded *image;

	return find_type(ns, "PyCFunction_Type", &image) != 0;
}

static bool replace(const struct sosc_loaded *image, uint64_t *word, uint64_t ours, uint64_t real)
{
	if (*word == ours)
		return true;
	return *word == real && sosc_change_word(image, (uint64_t)word, ours);
}

// A type that is not ready yet has 0 there, and will inherit the value of its base type.
static bool replace_inherited(const struct sosc_loaded *image, uint64_t *word, uint64_t ours,
			      uint64_t real)
{
	if (!*word)
		return sosc_change_note(image, (uint64_t)word, real, ours, sizeof(*word));
	return *word != real || replace(image, word, ours, real);
}

/**
 * Return whether the functions of the type are replaced already, so that hashes and comparisons do
 * not change when methods are hooked.
 */
bool sosc_methodobjects_are_minded(void)
{
	return known && sosc_image_of(known) && *field(known, TP_HASH) == (uint64_t)hash &&
	       *field(known, TP_RICHCOMPARE) == (uint64_t)compare;
}

/** Replace them before a method is hooked. Return false if that is not possible. */
bool sosc_methodobjects_mind(uint32_t ns)
{
	struct sosc_loaded *image, *other;
	uint64_t type = find_type(ns, "PyCFunction_Type", &image), method, *words[2];

	if (!type)
		return false;
	words[0] = field(type, TP_HASH);
	words[1] = field(type, TP_RICHCOMPARE);
	if (*words[0] == (uint64_t)hash && *words[1] == (uint64_t)compare)
		return true;
	if (!*words[0] || !*words[1] || !(sosc_segment_flags(image, type) & PF_W))
		return false;
	known = type;
	real_hash = real_value(*words[0], (uint64_t)hash, real_hash);
	real_compare = real_value(*words[1], (uint64_t)compare, real_compare);
	sosc_inside.method_hash = real_hash;
	sosc_inside.method_compare = real_compare;
	method = find_type(ns, "PyCMethod_Type", &other); // since Python 3.9
	if (method &&
	    !(replace_inherited(other, field(method, TP_HASH), (uint64_t)hash, real_hash) &&
	      replace_inherited(other, field(method, TP_RICHCOMPARE), (uint64_t)compare,
				real_compare)))
		return false;
	return replace(image, words[0], (uint64_t)hash, real_hash) &&
	       replace(image, words[1], (uint64_t)compare, real_compare);
}
