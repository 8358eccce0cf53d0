// SPDX-License-Identifier: Apache-2.0
// What an interpreter of a few lines announces, and frees: each object has a word as long as it lives, and
// the line that made it, read from frames and texts that end where memory does.
#include "heap.h"
#include "interpreter.h"

#include "objects/common/picks.h"
#include "objects/python/pythonpicks.h"
#include "objects/python/pythonrecent.h"

enum { SHIMS = 12, TURNS = 4000, SIZE = 64, LATER = 14, LARGE = 5000 };

static struct sosc_python now;

// ---- lines ---------------------------------------------------------------------

struct owned { // a frame that may be a shim
	struct frame frame;
	uint64_t owner;
};

static struct whole code;

static void check_lines(void)
{
	struct owned *shims = host_edge(SHIMS * sizeof(*shims));
	uint32_t number;

	begin(&code, 1);
	own_state.frame = NULL;
	CHECK(sosc_python_origin(0, NULL) == ORIGIN_NOWHERE && !sosc_python_runs());
	for (int i = 0; i < SHIMS; i++)
		shims[i] = (struct owned){{&code.code, i ? &shims[i - 1].frame : NULL, 2}, 3};
	shims[0].owner = 0;
	own_state.frame = &shims[3].frame;
	number = sosc_python_origin(0, NULL);
	CHECK(number >= ORIGINS_FIRST && sosc_origins[number].instr == 2);
	CHECK(sosc_origins[number].first_line == 7 && sosc_python_runs());
	own_state.frame = &shims[SHIMS - 1].frame; // more of them than there can be
	CHECK(sosc_python_origin(0, NULL) == ORIGIN_NOWHERE);
	shims[1].frame.previous = &shims[2].frame; // without an end
	CHECK(sosc_python_origin(0, NULL) == ORIGIN_NOWHERE);
	own_state.frame = &shims[0].frame;
	code.code.type = (uint64_t)&plain; // what is executed is no code
	CHECK(sosc_python_origin(0, NULL) == ORIGIN_NOWHERE);
	code.code.type = (uint64_t)&code_type;
	now.instr_kind = SOSC_INSTR_UNITS;
	CHECK(sosc_python_instr(&now, (uint64_t)&shims[0], (uint64_t)&code) == 4);
	now.instr_kind = SOSC_INSTR_POINTER;
	now.code_bytes = 40;
	shims[0].frame.instr = (uint64_t)&code + 38;
	CHECK(sosc_python_instr(&now, (uint64_t)&shims[0], (uint64_t)&code) == -2);
	now = layout;
	now.type_flags = offsetof(struct type, flags);
}

static void check_texts(void)
{
	static const uint32_t kinds[] = {1, 2, 4};
	struct text *text = host_edge(sizeof(*text));
	struct sosc_origin origin;

	begin(&code, 2);
	code.code.file = text;
	text->size = 3;
	now.text_compact = offsetof(struct text, data) + 4;
	for (uint32_t i = 0; i < 6; i++) {
		uint32_t kind = kinds[i % 3], later = i < 3 ? 0 : LATER;
		struct sosc_text found;

		text->state = (kind | 1 << 3) << (2 + later);
		origin = sosc_python_code(&now, (uint64_t)&code);
		found = sosc_python_texts(&now, &origin).file;
		CHECK(found.size == 3 * kind && found.width == kind);
		CHECK(found.data == text->data + 4);
		text->state |= 1u << (4 + 2 + later);
		CHECK(sosc_python_texts(&now, &origin).file.data == text->data);
		text->state = kind << (2 + later); // its characters lie elsewhere
		CHECK(!sosc_python_texts(&now, &origin).file.size);
	}
	text->state = file.state;
	for (uint64_t size = (1 << 20) + 1; size > 1 << 20; size <<= 1) {
		text->size = size;
		CHECK(!sosc_python_texts(&now, &origin).file.data);
	}
	text->state = 0;
	CHECK(!sosc_python_texts(&now, &origin).file.data);
	CHECK(sosc_python_texts(&now, &origin).lines.data == lines.data);
}

// ---- objects -------------------------------------------------------------------

static struct sosc_allocator allocators[PYMEM_DOMAINS];
static struct type dies = {1, &meta, .flags = HAS_GC | HEAP}; // its objects have a finalizer
static bool may_move = true;

static void *take(void *ctx, size_t size)
{
	return malloc(size);
}

static void *take_zeros(void *ctx, size_t count, size_t size)
{
	return count < LARGE ? calloc(count, size) : NULL;
}

static void *move(void *ctx, void *at, size_t size)
{
	return may_move ? realloc(at, size) : NULL;
}

static void give(void *ctx, void *at)
{
	free(at);
}

static void get_allocator(int domain, struct sosc_allocator *allocator)
{
	*allocator = allocators[domain];
}

static void set_allocator(int domain, const struct sosc_allocator *allocator)
{
	allocators[domain] = *allocator;
}

static struct object *new_object(struct type *type)
{
	const struct sosc_allocator *by = &allocators[PYMEM_DOMAIN_OBJ];
	uint8_t *at = by->malloc(by->ctx, SIZE);
	struct object *object = (void *)(at + (type->flags & HAS_GC ? SOSC_PYTHON_HEAD : 0));

	*object = (struct object){.type = type};
	return object;
}

static void *block_of(const struct object *object)
{
	return (uint8_t *)object - (object->type->flags & HAS_GC ? SOSC_PYTHON_HEAD : 0);
}

static uint32_t word_of(const struct object *object)
{
	const uint32_t *word = sosc_side_at((uint64_t)block_of(object));

	return word ? *word : 0;
}

static void announce(struct object *object)
{
	CHECK(!((int (*)(uint64_t))sosc_python_announced())((uint64_t)object));
	object->count = 1;
}

static void end(struct object *object)
{
	const struct sosc_allocator *by = &allocators[PYMEM_DOMAIN_OBJ];

	by->free(by->ctx, block_of(object));
}

static void start(bool is_sample)
{
	sosc_side_clear();
	memset(&sosc_objects_tally, 0, offsetof(struct sosc_objects_tally, origins));
	sosc_picks_end();
	if (is_sample) {
		sosc_picks_plan(1ull << 16); // some bytes apart
		sosc_picks_begin();
	}
	sosc_recent_begin(&now, 0);
	for (int i = 0; i < PYMEM_DOMAINS; i++)
		allocators[i] = (struct sosc_allocator){NULL, take, take_zeros, move, give};
	CHECK(sosc_python_allocator(true) && allocators[PYMEM_DOMAIN_OBJ].free != give);
	sosc_objects_count = true;
	begin(&code, 3);
	own_state.frame = NULL;
}

static void stop(void)
{
	sosc_objects_count = false;
	CHECK(sosc_python_allocator(false) && allocators[PYMEM_DOMAIN_OBJ].free == give);
	CHECK(allocators[PYMEM_DOMAIN_RAW].malloc == take);
	CHECK(sosc_objects_tally.created >= sosc_objects_tally.destroyed);
}

static void check_counted(void)
{
	struct frame frame = {&code.code, NULL, 6};
	struct object *object, *other;
	uint32_t word;

	start(false);
	own_state.frame = &frame;
	object = new_object(&holder);
	announce(object);
	word = word_of(object);
	CHECK(word >> SOSC_SIDE_SHIFT == (SOSC_SIDE_USED >> SOSC_SIDE_SHIFT | 1));
	CHECK(sosc_origins[word & SOSC_SIDE_ORIGIN].instr == 6);
	frame.instr = 8;
	announce(object); // its finalizer has resurrected it
	CHECK(word_of(object) == word && sosc_objects_tally.created == 1);
	other = new_object(&plain);
	announce(other);
	CHECK(sosc_origins[word_of(other) & SOSC_SIDE_ORIGIN].instr == 8);
	may_move = false;
	CHECK(!allocators[PYMEM_DOMAIN_OBJ].realloc(NULL, other, SIZE) && word_of(other));
	CHECK(sosc_objects_tally.created == 2 && !sosc_objects_tally.destroyed);
	may_move = true;
	other = allocators[PYMEM_DOMAIN_OBJ].realloc(NULL, other, 1 << 20);
	CHECK(!word_of(other) && sosc_objects_tally.destroyed == 1);
	announce(other);
	other->count = 0;
	end(object);
	end(other);
	end(new_object(&plain)); // never announced
	CHECK(sosc_objects_tally.created == 3 && sosc_objects_tally.destroyed == 3);
	stop();
}

static void check_traced(void)
{
	struct object *object;

	((uint64_t *)&dies)[49] = 1; // tp_finalize
	start(false);
	for (int i = 0; i < 2; i++) {
		object = new_object(i ? &dies : &holder);
		CHECK(!sosc_python_traced(object, 0, NULL) && word_of(object));
		CHECK(!sosc_python_traced(object, 1, NULL) && word_of(object) & SOSC_SIDE_DYING);
		CHECK(!sosc_python_traced(object, 0, NULL)); // from a free list, or resurrected
		CHECK(word_of(object) && !(word_of(object) & SOSC_SIDE_DYING));
		CHECK(sosc_objects_tally.created == (i ? 3 : 2));
		CHECK(!sosc_python_traced(object, 7, NULL) && !sosc_python_traced(NULL, 0, NULL));
		end(object);
	}
	object = new_object(&holder);
	CHECK(!sosc_python_traced(object, 1, NULL)); // an older one
	end(object);
	stop();
}

// Of those that are chosen by chance, each has a word, and no other one has.
static void check_picked(void)
{
	static struct object *objects[TURNS];
	uint64_t alive = 0, words = 0;

	start(true);
	for (int i = 0; i < TURNS; i++) {
		objects[i] = new_object(i % 3 ? &holder : &plain);
		announce(objects[i]);
		words += word_of(objects[i]) != 0;
	}
	CHECK(sosc_objects_tally.created == TURNS && words && words < TURNS);
	for (int i = 0; i < TURNS; i += 2)
		end(objects[i]);
	for (int i = 1; i < TURNS; i += 2) {
		alive += word_of(objects[i]) != 0;
		CHECK(!word_of(objects[i]) || sosc_picks_may_be((uint64_t)objects[i]));
	}
	CHECK(alive && alive < words);
	(void)allocators[PYMEM_DOMAIN_RAW].calloc(NULL, SIZE_MAX, 3); // no such size
	CHECK(!sosc_picks.asked);
	free(allocators[PYMEM_DOMAIN_RAW].calloc(NULL, 3, LARGE));
	CHECK(sosc_picks.asked == 3ul * LARGE);
	announce(objects[0] = new_object(&plain));
	CHECK(!sosc_picks.asked);
	stop();
}

int main(void)
{
	host_control(SOSC_INSTRUMENT_OBJECTS, 1);
	sosc_side_begin();
	CHECK(sosc_origins_init());
	now = layout;
	now.type_flags = offsetof(struct type, flags);
	sosc_python.thread_state = thread_state;
	sosc_python.PyCode_Type = &code_type;
	sosc_python.PyMem_GetAllocator = get_allocator;
	sosc_python.PyMem_SetAllocator = set_allocator;
	now.frame_owner = offsetof(struct owned, owner);
	now.shim = 3;
	sosc_python_layout = now;
	check_lines();
	sosc_python_layout = now;
	check_texts();
	check_counted();
	check_traced();
	check_picked();
	return 0;
}
