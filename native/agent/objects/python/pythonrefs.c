// SPDX-License-Identifier: Apache-2.0
// Which Python objects refer to which others. Each object that the garbage collector tracks is
// asked through its type's own traverse function, as in a collection. In addition: variables of
// running frames, constants of code, and words of frames and threads that may be addresses of
// objects.

#include "base/sys.h"
#include "objects/common/refs.h"
#include "objects/python/python.h"

enum {
	TYPE = 8, // ob_type
	SIZE = 16, // ob_size
	LIST_ITEMS = 24,
	TYPE_TRAVERSE = 184, // tp_traverse
	TYPE_HAS_GC = 1 << 14, // Py_TPFLAGS_HAVE_GC
	TYPE_DICT = 1 << 29, // Py_TPFLAGS_DICT_SUBCLASS
	DICT_KEYS = 32, // ma_keys: the same in all versions
	DICT_VALUES = 40,
	MINOR_WITH_SMALL_KEYS = 11,
	KEYS_INDICES = 9, // of PyDictKeysObject: log2 of the bytes of its indices
	KEYS_KIND = 10, // kind of the keys, 0: any object
	KEYS_COUNT = 24,
	KEYS_SIZE = 32, // bytes in front of the indices
	ENTRY_OF_TEXT = 16, // a key and a value
	OLD_KEYS_SLOTS = 8, // up to 3.10
	OLD_KEYS_COUNT = 32,
	OLD_KEYS_SIZE = 40,
	OLD_ENTRY = 24, // a hash, a key and a value
	THREAD_WORDS = 32, // words that the thread state has in each version
	FRAMES_MAX = 1 << 20,
	WAITING = 1 << 24,
	WAITING_LEAST = 1 << 14,
	TAG_NUMBER = 3, // low bits of a variable that holds no address
};

typedef int visitor(void *object, void *argument);
typedef int traversal(void *object, visitor *visit, void *argument);

// objects that were visited and whose own references are still to be written
static uint64_t *waiting;
static uint64_t waiting_count, waiting_room;

static inline uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static inline uint32_t half_at(uint64_t addr)
{
	return *(const uint32_t *)addr;
}

static bool has_items(uint64_t type)
{
	return type == (uint64_t)sosc_python.PyTuple_Type ||
	       type == (uint64_t)sosc_python.PyDict_Type;
}

// Objects that the collector does not track may be under construction. But it also stops tracking
// tuples and dictionaries that cannot be part of a cycle, and it never tracks the constants of
// code.
static bool refers(uint64_t object)
{
	uint64_t type = word_at(object + TYPE);

	if (type == (uint64_t)sosc_python.PyCode_Type)
		return true;
	return word_at(type + sosc_python_layout.type_flags) & TYPE_HAS_GC &&
	       (has_items(type) || sosc_python.PyObject_GC_IsTracked((void *)object));
}

static void meet(uint64_t object)
{
	if (!sosc_refs_is_first(object) || !refers(object))
		return;
	if (waiting_count < waiting_room)
		waiting[waiting_count++] = object;
	else
		sosc_refs.lost++;
}

static int visit(void *object, void *type)
{
	if (object) {
		sosc_refs_tell((uint64_t)object, object == type ? SOSC_REF_TYPE : SOSC_REF_OBJECT);
		meet((uint64_t)object);
	}
	return 0;
}

static void tell_of_code(uint64_t code)
{
	const struct sosc_python *at = &sosc_python_layout;
	const uint32_t places[] = {at->code_consts, at->code_consts + 8, at->code_file,
				   at->code_name, at->code_lines};

	for (uint32_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		(void)visit((void *)word_at(code + places[i]), NULL);
}

// A dictionary's traverse function leaves out the keys if all of them are strings.
static void tell_of_keys(uint64_t dict)
{
	uint64_t keys = word_at(dict + DICT_KEYS), entry, count, size;

	if (!keys || word_at(dict + DICT_VALUES))
		return; // the keys are shared with other dictionaries
	if (sosc_python_layout.minor >= MINOR_WITH_SMALL_KEYS) {
		if (!*(const uint8_t *)(keys + KEYS_KIND))
			return; // not all keys are strings
		count = word_at(keys + KEYS_COUNT);
		entry = keys + KEYS_SIZE + (1ull << *(const uint8_t *)(keys + KEYS_INDICES));
		size = ENTRY_OF_TEXT;
	} else {
		uint64_t slots = word_at(keys + OLD_KEYS_SLOTS);
		uint64_t width = slots <= 0xff ? 1 : slots <= 0xffff ? 2 : slots >> 32 ? 8 : 4;

		count = word_at(keys + OLD_KEYS_COUNT);
		entry = keys + OLD_KEYS_SIZE + slots * width + sizeof(uint64_t);
		size = OLD_ENTRY;
	}
	for (uint64_t i = 0; i < count; i++, entry += size)
		if (word_at(entry) && word_at(entry + sizeof(uint64_t)))
			sosc_refs_tell(word_at(entry), SOSC_REF_KEY);
}

static void tell_of(uint64_t object)
{
	uint64_t type = word_at(object + TYPE);
	uint64_t flags = word_at(type + sosc_python_layout.type_flags);
	traversal *traverse = (traversal *)word_at(type + TYPE_TRAVERSE);

	sosc_refs_holder(object, SOSC_REF_HOLDER);
	if (type == (uint64_t)sosc_python.PyCode_Type)
		tell_of_code(object);
	else if (traverse)
		(void)traverse((void *)object, visit, (void *)type);
	if (flags & TYPE_DICT)
		tell_of_keys(object);
}

static void tell_of_waiting(void)
{
	while (waiting_count)
		tell_of(waiting[--waiting_count]);
}

static void tell_of_tracked(const void *list)
{
	uint64_t count = word_at((uint64_t)list + SIZE);
	const uint64_t *items = (const uint64_t *)word_at((uint64_t)list + LIST_ITEMS);

	for (uint64_t i = 0; i < count; i++)
		(void)sosc_refs_is_first(items[i]);
	for (uint64_t i = 0; i < count; i++) {
		tell_of(items[i]);
		tell_of_waiting();
	}
}

// ---- threads -----------------------------------------------------------------------

static uint64_t size_of(uint64_t code, uint32_t at)
{
	return at == SOSC_NONE ? 0 : word_at(word_at(code + at) + SIZE);
}

static void tell_maybe(uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at += sizeof(uint64_t))
		if (word_at(at) > SOSC_REF_BITS)
			sosc_refs_tell(word_at(at) & ~(uint64_t)SOSC_REF_BITS, SOSC_REF_MAYBE);
}

static void tell_of_frame(uint64_t frame)
{
	const struct sosc_python *at = &sosc_python_layout;
	uint64_t code = word_at(frame + at->frame_code) & ~(uint64_t)at->frame_tag;
	uint64_t value = frame + at->frame_values, end;

	if (!code || word_at(code + TYPE) != (uint64_t)sosc_python.PyCode_Type)
		return;
	sosc_refs_holder(frame, SOSC_REF_FRAME);
	end = value +
	      sizeof(value) * (half_at(code + at->code_values) + size_of(code, at->code_cells) +
			       size_of(code, at->code_frees));
	for (; value < end; value += sizeof(value)) {
		uint64_t word = word_at(value);

		if ((word & TAG_NUMBER) != TAG_NUMBER)
			(void)visit((void *)(word & ~(uint64_t)SOSC_REF_BITS), NULL);
	}
	tell_maybe(frame, frame + at->frame_values);
	tell_maybe(value, value + sizeof(value) * half_at(code + at->code_stack));
}

static void tell_of_thread(uint64_t thread)
{
	const struct sosc_python *at = &sosc_python_layout;
	uint64_t frame = word_at(thread + at->state_frame);

	if (frame && at->inner_frame != SOSC_NONE)
		frame = word_at(frame + at->inner_frame);
	for (uint32_t i = 0; frame && i < FRAMES_MAX; i++) {
		if (at->frame_owner == SOSC_NONE ||
		    *(const uint8_t *)(frame + at->frame_owner) < at->shim)
			tell_of_frame(frame);
		frame = word_at(frame + at->frame_previous);
	}
	sosc_refs_holder(thread, SOSC_REF_THREAD);
	tell_maybe(thread, thread + sizeof(uint64_t) * THREAD_WORDS);
}

// Only threads of this interpreter: other interpreters may have a lock of their own.
static void tell_of_threads(void)
{
	void *thread = sosc_python.thread_state(), *interpreter;

	interpreter = thread ? sosc_python.PyThreadState_GetInterpreter(thread) : NULL;
	thread = interpreter ? sosc_python.PyInterpreterState_ThreadHead(interpreter) : NULL;
	for (; thread; thread = sosc_python.PyThreadState_Next(thread)) {
		tell_of_thread((uint64_t)thread);
		tell_of_waiting();
	}
}

// ---- the whole ---------------------------------------------------------------------

#define WANTED(name) sosc_python_look_up(&sosc_python.name, #name)

static bool look_all_up(void)
{
	return WANTED(PyObject_GC_IsTracked) && WANTED(PyImport_GetModuleDict) &&
	       WANTED(PyThreadState_GetInterpreter) && WANTED(PyInterpreterState_ThreadHead) &&
	       WANTED(PyThreadState_Next) && WANTED(PyTuple_Type) && WANTED(PyDict_Type);
}

static bool make_room(void)
{
	waiting_count = 0;
	for (waiting_room = WAITING; waiting_room >= WAITING_LEAST; waiting_room /= 4) {
		waiting = sosc_refs_take(sizeof(*waiting) * waiting_room);
		if (waiting)
			return true;
	}
	return false;
}

static void *tracked_objects(void)
{
	void *module = sosc_python.PyImport_ImportModule("gc");
	void *get = module ? sosc_python.PyObject_GetAttrString(module, "get_objects") : NULL;
	void *list = get ? sosc_python.PyObject_CallFunctionObjArgs(get, NULL) : NULL;

	if (!list)
		sosc_python.PyErr_Clear();
	if (get)
		sosc_python.Py_DecRef(get);
	if (module)
		sosc_python.Py_DecRef(module);
	return list;
}

/**
 * Write all references between objects. The interpreter's lock is held all the time. The list of
 * objects is freed before soscope reads the objects, since it holds a reference to each of them.
 */
void sosc_python_refs(void)
{
	void *list, *modules;

	if (!look_all_up())
		return;
	list = tracked_objects();
	if (list && sosc_refs_begin() && make_room()) {
		if (sosc_python_is_a(list, sosc_python.PyList_Type))
			tell_of_tracked(list);
		modules = sosc_python.PyImport_GetModuleDict();
		sosc_refs.modules = (uint64_t)modules;
		if (modules)
			meet((uint64_t)modules);
		tell_of_waiting();
		tell_of_threads();
		sosc_python.Py_DecRef(list);
		list = NULL;
	}
	sosc_refs_end();
	if (list)
		sosc_python.Py_DecRef(list);
}
