// SPDX-License-Identifier: Apache-2.0
// What CPython reports: an object begins when CPython announces a new reference, and ends when its
// allocator of objects frees the block. All of it is reported by the thread that holds the
// interpreter's lock (the GIL).

#include "objects/common/picks.h"
#include "objects/python/pythonblock.h"
#include "objects/python/pythonpicks.h"
#include "objects/python/pythonrecent.h"

enum {
	TYPE_OF_TYPES = 31, // number of the bit Py_TPFLAGS_TYPE_SUBCLASS
	TEST_SIZE = 300, // bytes of an object that no free list keeps
};

static struct sosc_allocator allocator; // the allocator that was set before
static sosc_tracer *former, *ours;
static void *former_data;

/** Return the number of 16-byte units in front of an object in its block. */
uint32_t sosc_python_shift(uint64_t object)
{
	return sosc_python_shift_of(object);
}

/** Return whether an object is of exactly this type. */
bool sosc_python_is_a(const void *object, const void *type)
{
	return sosc_word((uint64_t)object + SOSC_TYPE) == (uint64_t)type;
}

static __attribute__((noinline)) void made(uint64_t object, uint64_t block, uint32_t *word,
					   uint32_t shift)
{
	uint64_t type = sosc_word(object + SOSC_TYPE);
	bool is_type = sosc_word(type + sosc_python_layout.type_flags) >> TYPE_OF_TYPES & 1;
	bool is_told_of = is_type || type == (uint64_t)sosc_python.PyCode_Type;
	struct sosc_recent place = {.type = type};
	uint32_t origin;

	if (is_told_of)
		sosc_recent_forget();
	place.what = __atomic_load_n(&sosc_recent_epoch, __ATOMIC_ACQUIRE);
	origin = sosc_python_origin(0, &place);
	sosc_object_made(block, word, shift, origin);
	if (sosc_objects_made) {
		sosc_python_made(type, origin);
	} else if (!is_told_of && origin) {
		place.what |= (uint64_t)(SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | origin) << 32;
		sosc_recent_keep(&place);
	}
}

// The fast path of made(). Returns false if it cannot be taken.
static inline __attribute__((always_inline)) bool made_soon(uint64_t object, uint64_t where,
							    bool has_pointers, bool is_shared,
							    bool (*has_risen)(uint64_t))
{
	uint64_t type = sosc_word(object + SOSC_TYPE);
	uint32_t now, *word;

	if (!(is_shared ? sosc_recent_look_shared(where, type, has_pointers, &now) :
			  sosc_recent_look(where, type, has_pointers, &now)))
		return false;
	if (!sosc_side_is_near(sosc_python_block(object, now >> SOSC_SIDE_SHIFT & 3), &word) ||
	    (*word && has_risen(object)))
		return false;
	sosc_objects_tally.created++;
	*word = now | sosc_objects_since;
	return true;
}

// ---- announcements -------------------------------------------------------------------

/**
 * Replaces _PyTraceMalloc_NewReference. An object that already has references was resurrected by
 * its finalizer, and keeps its origin.
 */
__attribute__((noinline)) int sosc_python_referenced(uint64_t object)
{
	uint32_t shift = sosc_python_shift_of(object);
	uint64_t block = sosc_python_block(object, shift);
	uint32_t *word = sosc_side_at(block);

	if (sosc_objects_count && (!word || !*word || !sosc_python_is_referenced(object)))
		made(object, block, word, shift);
	return 0;
}

// Up to 3.11 all interpreters share one GIL.
static int referenced_by_offset(uint64_t object)
{
	if (sosc_objects_count &&
	    made_soon(object, sosc_recent_where(sosc_word(sosc_recent_ways.state), false), false,
		      false, sosc_python_is_referenced))
		return 0;
	return sosc_python_referenced(object);
}

static int referenced_by_pointer(uint64_t object)
{
	if (sosc_objects_count &&
	    made_soon(object, sosc_recent_where(sosc_word(sosc_recent_ways.state), true), true,
		      false, sosc_python_is_referenced))
		return 0;
	return sosc_python_referenced(object);
}

static int referenced_by_asking(uint64_t object)
{
	if (sosc_objects_count &&
	    made_soon(object, sosc_recent_where((uint64_t)sosc_python.thread_state(), true), true,
		      true, sosc_python_is_referenced))
		return 0;
	return sosc_python_referenced(object);
}

// If nobody asks where objects are made, the word depends only on the object's type.
static inline __attribute__((always_inline)) bool typed_soon(uint64_t object,
							     bool (*has_risen)(uint64_t))
{
	uint32_t shift = sosc_python_shift_of(object), *word;

	if (!sosc_side_is_near(sosc_python_block(object, shift), &word) ||
	    (*word && has_risen(object)))
		return false;
	sosc_objects_tally.created++;
	*word = SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | ORIGIN_NOWHERE;
	return true;
}

static int referenced_anywhere(uint64_t object)
{
	if (sosc_objects_count && typed_soon(object, sosc_python_is_referenced))
		return 0;
	return sosc_python_referenced(object);
}

/** Return the address of the function that replaces _PyTraceMalloc_NewReference. */
uint64_t sosc_python_announced(void)
{
	bool is_known = sosc_recent_ways.state, has_pointers = sosc_recent_ways.has_pointers;

	if (sosc_picks.is_wanted)
		return (uint64_t)sosc_python_referenced_pick;
	if (sosc_objects_types)
		return (uint64_t)referenced_anywhere;
	if (has_pointers)
		return (uint64_t)(is_known ? referenced_by_pointer : referenced_by_asking);
	return (uint64_t)(is_known ? referenced_by_offset : sosc_python_referenced);
}

static __attribute__((noinline)) int traced_slowly(uint64_t object)
{
	uint32_t shift = sosc_python_shift_of(object);
	uint64_t block = sosc_python_block(object, shift);
	uint32_t *word = sosc_side_at(block);

	if (word && *word && sosc_python_has_finalizer(object))
		*word &= ~(uint32_t)SOSC_SIDE_DYING;
	else
		made(object, block, word, shift);
	return 0;
}

static __attribute__((noinline)) int traced_created(uint64_t object)
{
	uint64_t where = sosc_recent_where((uint64_t)sosc_python.thread_state(), true);

	if (made_soon(object, where, true, true, sosc_python_has_finalizer))
		return 0;
	return traced_slowly(object);
}

static __attribute__((noinline)) int traced_destroyed(uint64_t object)
{
	uint32_t *word = sosc_side_at(sosc_python_block(object, sosc_python_shift_of(object)));

	if (word && *word)
		*word |= SOSC_SIDE_DYING;
	return 0;
}

/** The agent's PyRefTracer. */
int sosc_python_traced(void *object, int event, void *data)
{
	(void)data;
	if (!sosc_objects_count || !object)
		return 0;
	if (event == SOSC_REF_CREATED)
		return traced_created((uint64_t)object);
	return event == SOSC_REF_DESTROYED ? traced_destroyed((uint64_t)object) : 0;
}

static int traced_anywhere(void *object, int event, void *data)
{
	if (event == SOSC_REF_CREATED && sosc_objects_count &&
	    typed_soon((uint64_t)object, sosc_python_has_finalizer))
		return 0;
	return sosc_python_traced(object, event, data);
}

static sosc_tracer *tracer(void)
{
	if (sosc_picks.is_wanted)
		return sosc_python_traced_pick;
	return sosc_objects_types ? traced_anywhere : sosc_python_traced;
}

static int traced_before(void *object, int event, void *data)
{
	(void)tracer()(object, event, data);
	return former(object, event, former_data);
}

/**
 * Set the agent's tracer, which calls the tracer that was set before, or restore the former one.
 */
void sosc_python_tracer(bool is_ours)
{
	if (is_ours) {
		former = sosc_python.PyRefTracer_GetTracer(&former_data);
		ours = former ? traced_before : tracer();
		(void)sosc_python.PyRefTracer_SetTracer(ours, NULL);
	} else {
		(void)sosc_python.PyRefTracer_SetTracer(former, former_data);
	}
}

/**
 * The interpreter's library has been unloaded, and perhaps the library of the former tracer with
 * it.
 */
void sosc_python_forget_tracer(void)
{
	ours = former = NULL;
}

bool sosc_python_tracer_is_ours(void)
{
	void *data;

	return ours && sosc_python.PyRefTracer_GetTracer(&data) == ours;
}

// ---- blocks ----------------------------------------------------------------------

/** Called in place of the free function of the allocator of objects. */
__attribute__((noinline)) void sosc_python_freed(void *ctx, void *block)
{
	uint32_t *word = sosc_side_at((uint64_t)block);

	if (!sosc_objects_count || !word || !*word) {
		allocator.free(ctx, block);
		return;
	}
	if (sosc_picks.is_on)
		sosc_picks_gone((uint64_t)block, word);
	else
		sosc_object_freed((uint64_t)block);
	allocator.free(ctx, block);
}

static void freed(void *ctx, void *block)
{
	uint32_t *word;

	if (!sosc_objects_count) {
		allocator.free(ctx, block);
		return;
	}
	if (!sosc_side_is_near((uint64_t)block, &word) || (*word && sosc_picks.is_on)) {
		sosc_python_freed(ctx, block);
		return;
	}
	if (*word) {
		*word = 0;
		sosc_objects_tally.destroyed++;
	}
	allocator.free(ctx, block);
}

// The same as freed(), but most blocks have no mark.
static void freed_pick(void *ctx, void *block)
{
	if (sosc_picks_may_be((uint64_t)block))
		sosc_python_freed(ctx, block);
	else
		allocator.free(ctx, block);
}

// An object made in the new block announces itself. If there is no new block, the old object stays.
static void *resized(void *ctx, void *block, size_t size)
{
	uint32_t *word = sosc_objects_count ? sosc_side_at((uint64_t)block) : NULL;
	uint32_t was = word ? *word : 0;
	void *made;

	if (was && sosc_picks.is_on)
		sosc_picks_gone((uint64_t)block, word);
	else if (was)
		sosc_object_freed((uint64_t)block);
	made = allocator.realloc(ctx, block, size);
	if (made || !was)
		return made;
	if (sosc_picks.is_on) {
		sosc_picks_stays((uint64_t)block, word, was);
	} else {
		*word = was;
		sosc_objects_tally.destroyed--;
	}
	return made;
}

// ---- begin and end -----------------------------------------------------------------

// Returns whether the agent's function is called when the allocator @now frees a block: others may
// have set their allocator on top of it.
static bool reaches_us(const struct sosc_allocator *now)
{
	struct sosc_objects_tally before = sosc_objects_tally;
	bool counted = sosc_objects_count, was_heard;
	void *block = now->malloc(now->ctx, TEST_SIZE);
	uint32_t *word = block ? sosc_side_make((uint64_t)block) : NULL;

	if (word)
		*word = SOSC_SIDE_USED;
	sosc_objects_count = true;
	if (block)
		now->free(now->ctx, block);
	sosc_objects_count = counted;
	// without a word it is unknown, so the agent's allocator must not be set on top
	was_heard = !word || !*word;
	if (word)
		*word = 0;
	sosc_objects_tally = before;
	return was_heard;
}

/**
 * Set the agent's allocator of objects, or restore the one before. Return whether that was done.
 */
bool sosc_python_allocator(bool is_ours)
{
	struct sosc_allocator now;

	sosc_python_hear_of_large(is_ours && sosc_picks.is_wanted);
	sosc_python.PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &now);
	if ((now.free == freed || now.free == freed_pick) == is_ours)
		return true;
	if (!is_ours) {
		sosc_python.PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &allocator);
		return true;
	}
	if (reaches_us(&now))
		return true;
	allocator = now;
	now.realloc = resized;
	now.free = sosc_picks.is_wanted ? freed_pick : freed;
	sosc_python.PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &now);
	sosc_python.PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &now);
	return now.free == freed || now.free == freed_pick;
}

// ---- test ------------------------------------------------------------------------

static bool is_known(const void *object)
{
	uint64_t addr = (uint64_t)object;
	const uint32_t *word = sosc_side_at(sosc_python_block(addr, sosc_python_shift_of(addr)));

	return word && *word & SOSC_SIDE_USED && !(*word & SOSC_SIDE_DYING);
}

/**
 * Test the hooks with objects whose ends are known: one that is freed, and one that a free list
 * keeps. Return whether both were noticed.
 */
bool sosc_python_counts_right(void)
{
	void *list = sosc_python.PyList_New(0), *again;
	void *bytes = sosc_python.PyBytes_FromStringAndSize(NULL, TEST_SIZE);
	const uint32_t *word;
	bool right = list && bytes && is_known(list) && is_known(bytes);

	if (!right)
		return false;
	word = sosc_side_at((uint64_t)bytes);
	sosc_python.Py_DecRef(bytes);
	right = word && !*word;
	sosc_python.Py_DecRef(list);
	again = sosc_python.PyList_New(0);
	right = right && again && is_known(again);
	if (again)
		sosc_python.Py_DecRef(again);
	return right;
}
