// SPDX-License-Identifier: Apache-2.0
// References between objects of an interpreter of a few lines, objects that are older than our coming,
// and types of those that are made: all of them are told, with nothing behind the end of what has them,
// and what has no end is told up to a limit.
#include "heap.h"

#include "image/image.h"
#include "base/instrument.h"
#include "objects/common/refs.h"

enum { VALUES = 5, STACK = 3, KEYS = 6, WORDS = 1 << 19, CHAIN = 1000, TYPES = 200000 };

struct code {
	uint64_t count;
	struct type *type;
	uint32_t values, stack;
	struct list *cells;
	struct object *consts, *names, *file, *name, *lines;
};

struct frame {
	uint64_t code; // with a tag
	struct frame *previous;
	uint64_t owner;
	uint64_t values[VALUES + STACK];
};

struct dict {
	uint64_t count;
	struct type *type;
	uint64_t unused[2];
	void *keys, *values;
};

static struct sosc_python layout = {
	.minor = 12,
	.type_flags = offsetof(struct type, flags),
	.state_frame = 8,
	.inner_frame = SOSC_NONE,
	.frame_code = offsetof(struct frame, code),
	.frame_tag = 1,
	.frame_previous = offsetof(struct frame, previous),
	.frame_owner = offsetof(struct frame, owner),
	.shim = 3,
	.frame_values = offsetof(struct frame, values),
	.code_values = offsetof(struct code, values),
	.code_stack = offsetof(struct code, stack),
	.code_cells = SOSC_NONE,
	.code_frees = SOSC_NONE,
	.code_consts = offsetof(struct code, consts),
	.code_file = offsetof(struct code, file),
	.code_name = offsetof(struct code, name),
	.code_lines = offsetof(struct code, lines),
};

// ---- the interpreter -----------------------------------------------------------

static struct type code_type = {1, &meta}, list_type = {1, &meta}, tuple_type = {1, &meta};
static struct type dict_type = {1, &meta, .flags = HAS_GC | DICT};
static struct list list = {1, &list_type, .at = list.items};
static uint64_t *state; // of the one thread
static uint64_t told[WORDS], told_count;

static int is_tracked(void *object)
{
	return ((struct object *)object)->type == &holder;
}

static void *nothing(void)
{
	return NULL;
}

static void *thread(void)
{
	return state;
}

static void *next_thread(void *former)
{
	CHECK(former == state);
	return NULL;
}

static void *import(const char *name)
{
	CHECK(!strcmp(name, "gc"));
	return &list;
}

static void *attribute(void *object, const char *name)
{
	return object;
}

static void *call(void *callable, ...)
{
	return callable;
}

// The list goes before soscope looks at what is told.
static void decrease(void *object)
{
	if (object != &list || !sosc_refs.words)
		return;
	told_count = sosc_refs.count;
	memcpy(told, (const void *)sosc_refs.words, told_count * sizeof(*told));
}

static const struct host_symbol names[] = {
	{"PyObject_GC_IsTracked", is_tracked},
	{"PyImport_GetModuleDict", nothing},
	{"PyThreadState_GetInterpreter", thread},
	{"PyInterpreterState_ThreadHead", thread},
	{"PyThreadState_Next", next_thread},
	{"PyTuple_Type", &tuple_type},
	{"PyDict_Type", &dict_type},
};

// ---- references ----------------------------------------------------------------

static struct block blocks[LIST_MOST];

static uint64_t count_of(const void *from, enum sosc_ref holder_kind, const void *to,
			 enum sosc_ref kind)
{
	uint64_t count = 0, now = 0;

	for (uint64_t i = 0; i < told_count; i++) {
		uint64_t word = told[i], low = word & SOSC_REF_BITS;

		if (low == SOSC_REF_HOLDER || low == SOSC_REF_FRAME || low == SOSC_REF_THREAD)
			now = word;
		else
			count += now == ((uint64_t)from | holder_kind) &&
				 word == ((uint64_t)to | kind);
	}
	return count;
}

static bool refers(const void *from, const void *to)
{
	return count_of(from, SOSC_REF_HOLDER, to, SOSC_REF_OBJECT) == 1;
}

static void tell(void)
{
	told_count = 0;
	sosc_python_refs();
}

static void make_objects(void)
{
	list.size = 0;
	for (int i = 0; i < LIST_MOST; i++)
		blocks[i] = (struct block){.head = {1, 1}, .object = {.count = 1, .type = &holder}};
	state = host_edge(32 * sizeof(*state));
}

static void put(void *object)
{
	list.items[list.size++] = object;
}

static void check_objects(void)
{
	make_objects();
	put(&blocks[0].object);
	put(&blocks[1].object);
	blocks[0].object.refers[0] = &blocks[1].object;
	blocks[1].object.refers[0] = &blocks[0].object; // without an end
	blocks[1].object.refers[1] = &blocks[2].object;
	blocks[2].object.type = &plain;
	tell();
	CHECK(refers(&blocks[0].object, &blocks[1].object));
	CHECK(refers(&blocks[1].object, &blocks[0].object));
	CHECK(refers(&blocks[1].object, &blocks[2].object));
	CHECK(told_count == 5 && !sosc_refs.lost);
}

// Keys that are all texts, in front of memory that cannot be read.
static void check_keys(void)
{
	struct dict dict = {1, &dict_type};
	struct object *keys[KEYS] = {&blocks[1].object, &blocks[2].object};
	uint8_t *table;
	uint64_t *entries;

	for (int minor = 9; minor < 13; minor += 3) {
		make_objects();
		put(&dict);
		sosc_python_layout.minor = (uint32_t)minor;
		if (minor == 9) {
			table = host_edge(40 + 8 + KEYS * 24);
			((uint64_t *)table)[1] = 8;
			((uint64_t *)table)[4] = KEYS;
			entries = (uint64_t *)(table + 40 + 8);
		} else {
			table = host_edge(32 + (1 << 3) + KEYS * 16);
			table[9] = 3;
			table[10] = 1;
			((uint64_t *)table)[3] = KEYS;
			entries = (uint64_t *)(table + 32 + (1 << 3));
		}
		for (int i = 0; i < KEYS; i++) {
			uint64_t *entry = entries + i * (minor == 9 ? 3 : 2);

			*entry++ = minor == 9 ? 1 : (uint64_t)keys[i]; // a hash
			if (minor == 9)
				*entry++ = (uint64_t)keys[i];
			*entry = 1;
		}
		dict.keys = table;
		dict.values = NULL;
		tell();
		for (int i = 0; i < 2; i++)
			CHECK(count_of(&dict, SOSC_REF_HOLDER, keys[i], SOSC_REF_KEY) == 1);
		CHECK(told_count == 3);
		dict.values = table; // shared with others
		tell();
		CHECK(!told_count);
		dict.keys = dict.values = NULL;
		tell();
		CHECK(!told_count);
	}
	sosc_python_layout = layout;
}

// A frame ends where memory does; the thread's state, too.
static void check_frames(void)
{
	struct code code = {1, &code_type, VALUES, STACK};
	struct list cells = {1, &tuple_type, 2};
	struct frame *frame;

	make_objects();
	frame = host_edge(sizeof(*frame));
	*frame = (struct frame){.code = (uint64_t)&code | 1};
	frame->values[0] = (uint64_t)&blocks[0].object;
	frame->values[VALUES - 1] = (uint64_t)&blocks[1].object | 1; // a borrowed one
	frame->values[1] = 7 << 2 | 3; // a number
	frame->values[VALUES + STACK - 1] = (uint64_t)&blocks[2].object;
	blocks[0].object.refers[0] = &blocks[3].object;
	state[1] = (uint64_t)frame;
	state[31] = (uint64_t)&blocks[4].object;
	tell();
	CHECK(count_of(frame, SOSC_REF_FRAME, &blocks[0].object, SOSC_REF_OBJECT) == 1);
	CHECK(count_of(frame, SOSC_REF_FRAME, &blocks[1].object, SOSC_REF_OBJECT) == 1);
	CHECK(count_of(frame, SOSC_REF_FRAME, &blocks[2].object, SOSC_REF_MAYBE) == 1);
	CHECK(count_of(state, SOSC_REF_THREAD, &blocks[4].object, SOSC_REF_MAYBE) == 1);
	CHECK(refers(&blocks[0].object, &blocks[3].object));
	frame->owner = 3; // it has no code
	tell();
	CHECK(!count_of(frame, SOSC_REF_FRAME, &blocks[0].object, SOSC_REF_OBJECT));
	frame->owner = 0;
	code.type = &plain;
	tell();
	CHECK(!count_of(frame, SOSC_REF_FRAME, &blocks[0].object, SOSC_REF_OBJECT));
	code.type = &code_type;
	code.values = VALUES - 2; // the others are in a tuple, as it was before
	code.cells = &cells;
	sosc_python_layout.code_cells = offsetof(struct code, cells);
	tell();
	CHECK(count_of(frame, SOSC_REF_FRAME, &blocks[1].object, SOSC_REF_OBJECT) == 1);
	CHECK(count_of(frame, SOSC_REF_FRAME, &blocks[2].object, SOSC_REF_MAYBE) == 1);
	frame->previous = frame; // without an end
	tell();
	sosc_python_layout = layout;
}

// ---- older ones, and those that are made ---------------------------------------

static bool is_older(const struct object *object)
{
	uint32_t shift = object->type == &holder ? 1 : 0;
	const uint32_t *word = sosc_side_at((uint64_t)object - shift * SOSC_PYTHON_HEAD);

	return word && *word == (SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | ORIGIN_NOWHERE);
}

static void check_older(void)
{
	static struct block chain[CHAIN] __attribute__((aligned(16)));
	uint32_t count = 0;

	make_objects();
	for (int i = 0; i < CHAIN; i++) {
		chain[i] = (struct block){.head = {1, 1}, .object = {.count = 1, .type = &holder}};
		chain[i].object.refers[0] = &chain[(i + 1) % CHAIN].object;
	}
	blocks[0].object.refers[0] = (struct object *)&plain; // a static type is none
	blocks[0].object.refers[1] = &chain[0].object;
	put(&blocks[0].object);
	blocks[1].object.type = &plain;
	put(&blocks[1].object);
	CHECK(sosc_python_mark_older());
	CHECK(is_older(&blocks[0].object) && is_older(&blocks[1].object));
	CHECK(!is_older(&blocks[2].object) && !is_older((struct object *)&plain));
	for (int i = 0; i < CHAIN; i++)
		count += is_older(&chain[i].object);
	CHECK(count > 32 && count < CHAIN && is_older(&chain[count - 1].object));
	list.type = &plain; // no list
	CHECK(!sosc_python_mark_older());
	list.type = &list_type;
}

static uint64_t made_types[TYPES];
static uint64_t references;

static void count_up(void *type)
{
	CHECK((uint64_t *)type >= made_types && (uint64_t *)type < made_types + TYPES);
	references++;
}

static void count_down(void *type)
{
	CHECK((uint64_t *)type >= made_types && (uint64_t *)type < made_types + TYPES);
	references--;
}

static void check_made(void)
{
	struct sosc_program program = {0};
	const struct sosc_program_row *rows;
	uint64_t count = 0;

	sosc_python.Py_IncRef = count_up;
	sosc_python.Py_DecRef = count_down;
	CHECK(sosc_python_made_begin());
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t i = 0; i < TYPES; i++)
			sosc_python_made((uint64_t)&made_types[i], i % 3);
	sosc_python_made_look(&program);
	rows = (const void *)program.rows;
	for (uint32_t i = 0; i < program.row_count; i++) {
		CHECK(rows[i].count == 2);
		count += rows[i].count;
	}
	CHECK(program.lost && count + program.lost == 2 * TYPES);
	CHECK(references == program.row_count);
	sosc_python_made_end();
	CHECK(!references && sosc_python_made_begin());
	sosc_python_made((uint64_t)made_types, 1);
	sosc_python_made_forget(); // the types have gone without us
	sosc_python_made_look(&program);
	CHECK(!program.row_count && !program.lost);
}

int main(void)
{
	struct sosc_loaded *image = host_image(names, sizeof(names) / sizeof(*names));

	host_control(SOSC_INSTRUMENT_OBJECTS, 1);
	sosc_instruments[SOSC_INSTRUMENT_OBJECTS].start(); // nobody looks
	sosc_side_begin();
	CHECK(sosc_origins_init());
	sosc_python_know(image);
	sosc_python_layout = layout;
	sosc_python.PyImport_ImportModule = import;
	sosc_python.PyObject_GetAttrString = attribute;
	sosc_python.PyObject_CallFunctionObjArgs = call;
	sosc_python.PyErr_Clear = (void (*)(void))nothing;
	sosc_python.Py_DecRef = decrease;
	sosc_python.thread_state = thread;
	sosc_python.PyList_Type = &list_type;
	sosc_python.PyCode_Type = &code_type;
	check_objects();
	check_keys();
	check_frames();
	check_older();
	check_made();
	return 0;
}
