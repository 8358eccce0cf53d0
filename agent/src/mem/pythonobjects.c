// SPDX-License-Identifier: Apache-2.0
// What CPython tells us: where it announces a new reference an object begins, where its allocator
// of objects frees a block one ends. All of it is told by the thread that holds the interpreter's
// lock (the GIL).

#include "picks.h"
#include "python.h"
#include "pythonrecent.h"

enum {
	TYPE = 8, // ob_type
	TYPE_HAS_GC = 1 << 14, // Py_TPFLAGS_HAVE_GC
	TYPE_HEAP = 1 << 9, // Py_TPFLAGS_HEAPTYPE
	TYPE_OF_TYPES = 31, // Py_TPFLAGS_TYPE_SUBCLASS: a bit's number
	TYPE_BASIC_SIZE = 32, // tp_basicsize, and tp_finalize: the same in all versions
	TYPE_FINALIZE = 392,
	REF_CREATED = 0, // PyRefTracerEvent
	REF_DESTROYED = 1,
	TEST_SIZE = 300, // bytes of an object that lies on no free list
};

static struct sosc_allocator allocator, raw; // what there was before
static sosc_tracer *former;
static void *former_data;

static inline uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static inline uint32_t shift_of(uint64_t object)
{
	uint64_t flags = word_at(word_at(object + TYPE) + sosc_python_layout.type_flags);

	return (flags & TYPE_HAS_GC ? 1u : 0u) + (flags & sosc_python_layout.head_flags ? 1u : 0u);
}

/** How many times 16 bytes stand in front of an object in its block. */
uint32_t sosc_python_shift(uint64_t object)
{
	return shift_of(object);
}

/** Whether an object is of this type itself. */
bool sosc_python_is_a(const void *object, const void *type)
{
	return word_at((uint64_t)object + TYPE) == (uint64_t)type;
}

static inline uint64_t block_of(uint64_t object, uint32_t shift)
{
	return object - (uint64_t)shift * SOSC_PYTHON_HEAD;
}

static __attribute__((noinline)) void made(uint64_t object, uint64_t block, uint32_t *word,
					   uint32_t shift)
{
	uint64_t type = word_at(object + TYPE);
	bool is_type = word_at(type + sosc_python_layout.type_flags) >> TYPE_OF_TYPES & 1;
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

// What made() does, where that is short. Whether it is.
static inline __attribute__((always_inline)) bool made_soon(uint64_t object, uint64_t where,
							    bool has_pointers, bool is_shared,
							    bool (*has_risen)(uint64_t))
{
	uint64_t type = word_at(object + TYPE);
	uint32_t now = sosc_recent_look(where, type, has_pointers, is_shared), *word;

	if (!now)
		return false;
	if (!sosc_side_look_back(block_of(object, now >> SOSC_SIDE_SHIFT & 3), &word) ||
	    (*word && has_risen(object)))
		return false;
	sosc_objects_tally.created++;
	*word = now | sosc_objects_since;
	return true;
}

// ---- objects that are chosen by chance -----------------------------------------------

static uint32_t *picked_at(uint64_t block)
{
	uint32_t *word = sosc_side_at(block);

	return word && *word ? word : NULL;
}

static __attribute__((noinline)) int pick(uint64_t object, uint32_t size)
{
	uint32_t shift = shift_of(object);

	sosc_picks_draw();
	sosc_picks_made(block_of(object, shift), shift, sosc_python_origin(size, NULL));
	return 0;
}

static __attribute__((noinline)) int created_large(uint64_t object, uint64_t bytes)
{
	uint32_t size = sosc_picks_size(bytes);

	return sosc_picks_hit(size) ? pick(object, size) : 0;
}

// An object begins. Whatever object was there before has ended. Its size is that of its type: how much
// more there is of it, it says after it has announced itself. Where the allocator has been asked for
// a large block in front of it, that is its own.
static inline __attribute__((always_inline)) int created(uint64_t object)
{
	uint64_t asked = sosc_picks.asked, bytes;
	uint32_t size;

	sosc_objects_tally.created++;
	bytes = word_at(word_at(object + TYPE) + TYPE_BASIC_SIZE);
	if (__builtin_expect(asked || bytes > PICKS_FEW, 0)) {
		sosc_picks.asked = 0;
		return created_large(object, asked ? asked : bytes);
	}
	size = sosc_picks_size(bytes);
	return sosc_picks_hit(size) ? pick(object, size) : 0;
}

static __attribute__((noinline)) bool begins_anew(uint64_t object, bool (*has_risen)(uint64_t))
{
	uint64_t block = block_of(object, shift_of(object));
	uint32_t *word = picked_at(block);

	if (!word)
		return true;
	if (has_risen(object)) {
		*word &= ~(uint32_t)SOSC_SIDE_DYING;
		return false;
	}
	sosc_picks_gone(block, word);
	return true;
}

static bool is_referenced(uint64_t object)
{
	return *(const uint32_t *)object;
}

// ---- announcements -------------------------------------------------------------------

// Stand in the place of _PyTraceMalloc_NewReference. An object that counts references already is one
// that its finalizer has resurrected: its origin is what it was.
static __attribute__((noinline)) int referenced(uint64_t object)
{
	uint32_t shift = shift_of(object);
	uint64_t block = block_of(object, shift);
	uint32_t *word = sosc_side_at(block);

	if (sosc_objects_count && (!word || !*word || !is_referenced(object)))
		made(object, block, word, shift);
	return 0;
}

static __attribute__((noinline)) int referenced_marked(uint64_t object)
{
	return begins_anew(object, is_referenced) ? created(object) : 0;
}

static int referenced_pick(uint64_t object)
{
	if (!sosc_picks.is_on)
		return referenced(object);
	if (!sosc_objects_count)
		return 0;
	return sosc_picks_may_be(object) ? referenced_marked(object) : created(object);
}

// Up to 3.11, interpreters have one GIL.
static int referenced_by_offset(uint64_t object)
{
	if (sosc_objects_count &&
	    made_soon(object, sosc_recent_where(word_at(sosc_recent_ways.state), false), false,
		      false, is_referenced))
		return 0;
	return referenced(object);
}

static int referenced_by_pointer(uint64_t object)
{
	if (sosc_objects_count &&
	    made_soon(object, sosc_recent_where(word_at(sosc_recent_ways.state), true), true, false,
		      is_referenced))
		return 0;
	return referenced(object);
}

static int referenced_by_asking(uint64_t object)
{
	if (sosc_objects_count &&
	    made_soon(object, sosc_recent_where((uint64_t)sosc_python.thread_state(), true), true,
		      true, is_referenced))
		return 0;
	return referenced(object);
}

static int referenced_anywhere(uint64_t object)
{
	if (sosc_objects_count &&
	    made_soon(object, SOSC_RECENT_ANYWHERE, true, true, is_referenced))
		return 0;
	return referenced(object);
}

/** The function that stands in the place of _PyTraceMalloc_NewReference. */
uint64_t sosc_python_announced(void)
{
	bool is_known = sosc_recent_ways.state, has_pointers = sosc_recent_ways.has_pointers;

	if (sosc_picks.is_wanted)
		return (uint64_t)referenced_pick;
	if (sosc_objects_types)
		return (uint64_t)referenced_anywhere;
	if (has_pointers)
		return (uint64_t)(is_known ? referenced_by_pointer : referenced_by_asking);
	return (uint64_t)(is_known ? referenced_by_offset : referenced);
}

// An object that has an entry is announced again when a free list gives it away, and when its
// finalizer has resurrected it. No class that a program makes has a free list.
static bool has_finalizer(uint64_t object)
{
	uint64_t type = word_at(object + TYPE);

	return word_at(type + TYPE_FINALIZE) &&
	       word_at(type + sosc_python_layout.type_flags) & TYPE_HEAP;
}

static __attribute__((noinline)) int traced_slowly(uint64_t object)
{
	uint32_t shift = shift_of(object);
	uint64_t block = block_of(object, shift);
	uint32_t *word = sosc_side_at(block);

	if (word && *word && has_finalizer(object))
		*word &= ~(uint32_t)SOSC_SIDE_DYING;
	else
		made(object, block, word, shift);
	return 0;
}

static __attribute__((noinline)) int traced_created(uint64_t object)
{
	uint64_t where = SOSC_RECENT_ANYWHERE;

	if (!sosc_objects_types)
		where = sosc_recent_where((uint64_t)sosc_python.thread_state(), true);
	return made_soon(object, where, true, true, has_finalizer) ? 0 : traced_slowly(object);
}

static __attribute__((noinline)) int traced_destroyed(uint64_t object)
{
	uint32_t *word = sosc_side_at(block_of(object, shift_of(object)));

	if (word && *word)
		*word |= SOSC_SIDE_DYING;
	return 0;
}

static __attribute__((noinline)) int traced_marked(uint64_t object, int event)
{
	uint32_t *word;

	if (event == REF_CREATED)
		return begins_anew(object, has_finalizer) ? created(object) : 0;
	word = event == REF_DESTROYED ? picked_at(block_of(object, shift_of(object))) : NULL;
	if (word)
		*word |= SOSC_SIDE_DYING;
	return 0;
}

static __attribute__((noinline)) int traced_pick(uint64_t object, int event)
{
	if (sosc_picks_may_be(object))
		return traced_marked(object, event);
	return event == REF_CREATED ? created(object) : 0;
}

static inline __attribute__((always_inline)) int traced_alone(uint64_t object, int event)
{
	if (!sosc_objects_count || !object)
		return 0;
	if (sosc_picks.is_on)
		return traced_pick(object, event);
	if (event == REF_CREATED)
		return traced_created(object);
	return event == REF_DESTROYED ? traced_destroyed(object) : 0;
}

static __attribute__((noinline)) int traced_before(void *object, int event, void *data)
{
	(void)data;
	(void)traced_alone((uint64_t)object, event);
	return former(object, event, former_data);
}

static int traced(void *object, int event, void *data)
{
	if (__builtin_expect(former != NULL, 0))
		return traced_before(object, event, data);
	return traced_alone((uint64_t)object, event);
}

/** Have the interpreter tell us of references, and us whoever was told before; or those alone. */
void sosc_python_tracer(bool is_ours)
{
	if (is_ours) {
		former = sosc_python.PyRefTracer_GetTracer(&former_data);
		(void)sosc_python.PyRefTracer_SetTracer(traced, NULL);
	} else {
		(void)sosc_python.PyRefTracer_SetTracer(former, former_data);
	}
}

bool sosc_python_tracer_is_ours(void)
{
	void *data;

	return sosc_python.PyRefTracer_GetTracer(&data) == traced;
}

// ---- blocks ----------------------------------------------------------------------

static __attribute__((noinline)) void freed_slowly(void *ctx, void *block)
{
	uint32_t *word;

	if (!sosc_picks.is_on) {
		sosc_object_freed((uint64_t)block);
	} else {
		word = picked_at((uint64_t)block);
		if (word)
			sosc_picks_gone((uint64_t)block, word);
	}
	allocator.free(ctx, block);
}

static void freed(void *ctx, void *block)
{
	uint32_t *word;

	if (!sosc_objects_count) {
		allocator.free(ctx, block);
		return;
	}
	if (!sosc_side_look_back((uint64_t)block, &word) || (*word && sosc_picks.is_on)) {
		freed_slowly(ctx, block);
		return;
	}
	if (*word) {
		*word = 0;
		sosc_objects_tally.destroyed++;
	}
	allocator.free(ctx, block);
}

// As freed(): most blocks have no mark.
static void freed_pick(void *ctx, void *block)
{
	if (sosc_objects_count && (!sosc_picks.is_on || sosc_picks_may_be((uint64_t)block)))
		freed_slowly(ctx, block);
	else
		allocator.free(ctx, block);
}

// The object that is made of the new block announces itself; if there is none, the old one stays.
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

// ---- large blocks --------------------------------------------------------------------

// The allocator of objects has the one of raw memory give it those. Other threads may ask that, too,
// without the interpreter's lock: then an object is chosen by another size than its own, and says so.
static void *raw_allocated(void *ctx, size_t size)
{
	if (size > PICKS_FEW)
		sosc_picks.asked = size;
	return raw.malloc(ctx, size);
}

static void *raw_resized(void *ctx, void *block, size_t size)
{
	if (size > PICKS_FEW)
		sosc_picks.asked = size;
	return raw.realloc(ctx, block, size);
}

static void hear_of_large(bool is_ours)
{
	struct sosc_allocator now;

	sosc_python.PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &now);
	if ((now.malloc == raw_allocated) == is_ours)
		return;
	if (!is_ours) {
		sosc_python.PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &raw);
		return;
	}
	raw = now;
	now.malloc = raw_allocated;
	now.realloc = raw_resized;
	sosc_python.PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &now);
}

// Whether we are asked when @now frees a block: others may have put theirs on top of ours.
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
	was_heard = !word || !*word; // without a word ours must not go on top
	if (word)
		*word = 0;
	sosc_objects_tally = before;
	return was_heard;
}

/** Have blocks of objects freed by us, or as they were before. Whether that is so now. */
bool sosc_python_allocator(bool is_ours)
{
	struct sosc_allocator now;

	hear_of_large(is_ours && sosc_picks.is_wanted);
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

// ---- trying it -------------------------------------------------------------------

static bool is_known(const void *object)
{
	uint64_t addr = (uint64_t)object;
	const uint32_t *word = sosc_side_at(block_of(addr, shift_of(addr)));

	return word && *word & SOSC_SIDE_USED && !(*word & SOSC_SIDE_DYING);
}

/** Whether objects of known ends are seen: one that is freed, one that a free list keeps. */
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
