// SPDX-License-Identifier: Apache-2.0
// What CPython tells us: where it announces a new reference an object begins, where its allocator
// of objects frees a block one ends. All of it is told by the thread that holds the interpreter's
// lock (the GIL).

#include "picks.h"
#include "python.h"

enum {
	TYPE = 8, // ob_type
	TYPE_HAS_GC = 1 << 14, // Py_TPFLAGS_HAVE_GC
	TYPE_HEAP = 1 << 9, // Py_TPFLAGS_HEAPTYPE
	TYPE_BASIC_SIZE = 32, // tp_basicsize, and tp_finalize: the same in all versions
	TYPE_FINALIZE = 392,
	REF_CREATED = 0, // PyRefTracerEvent
	REF_DESTROYED = 1,
	TEST_SIZE = 300, // bytes of an object that lies on no free list
};

static struct sosc_allocator allocator; // what there was before
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

// Its word of the side table, NULL: no object that is counted is in the block.
static inline uint32_t *word_of(uint64_t block)
{
	return !sosc_picks.is_on || sosc_picks_may_be(block) ? sosc_side_at(block) : NULL;
}

// ---- objects that are chosen by chance -----------------------------------------------

// What the allocator was asked for last is the object's own block, as a rule. Where it is not, the
// object is of the free list, or the allocator was asked for something else meanwhile.
static inline uint32_t size_of(uint64_t object)
{
	uint64_t asked = sosc_picks.asked;

	sosc_picks.asked = 0;
	return sosc_picks_size(asked ? asked : word_at(word_at(object + TYPE) + TYPE_BASIC_SIZE));
}

// The object in @block is not counted any more.
static void uncount(uint64_t block, uint32_t *word)
{
	*word = 0;
	sosc_picks_unmark(block);
}

static void choose(uint64_t object, uint32_t shift)
{
	uint64_t block = block_of(object, shift);
	uint32_t size = size_of(object), origin;

	sosc_objects_tally.created++;
	if (!sosc_picks_take(size))
		return;
	origin = sosc_python_origin(size);
	sosc_picks_made(block, shift, origin);
}

static void *allocated(void *ctx, size_t size)
{
	sosc_picks.asked = size;
	return allocator.malloc(ctx, size);
}

static void *allocated_zeros(void *ctx, size_t count, size_t size)
{
	sosc_picks.asked = count * size;
	return allocator.calloc(ctx, count, size);
}

// ---- announcements -------------------------------------------------------------------

static void created(uint64_t object, uint32_t shift, uint32_t *word)
{
	uint64_t block = block_of(object, shift);

	if (!sosc_picks.is_on) {
		sosc_object_made(block, word, shift, sosc_python_origin(0));
		return;
	}
	if (word && *word)
		uncount(block, word);
	choose(object, shift);
}

/**
 * Stands in the place of _PyTraceMalloc_NewReference. An object that counts references already is
 * one that its finalizer has resurrected: its origin is what it was.
 */
int sosc_python_referenced(uint64_t object)
{
	uint32_t shift, *word;
	uint64_t block;

	if (!sosc_objects_count)
		return -1;
	shift = shift_of(object);
	block = block_of(object, shift);
	word = word_of(block);
	if (word && *word && *(const uint32_t *)object)
		return -1;
	created(object, shift, word);
	return -1;
}

// An object that has an entry is announced again when a free list gives it away, and when its
// finalizer has resurrected it. No class that a program makes has a free list.
static bool is_risen(uint64_t object, uint32_t *word)
{
	uint64_t type = word_at(object + TYPE);

	if (!word || !*word || !word_at(type + TYPE_FINALIZE) ||
	    !(word_at(type + sosc_python_layout.type_flags) & TYPE_HEAP))
		return false;
	*word &= ~(uint32_t)SOSC_SIDE_DYING;
	return true;
}

static int traced(void *object, int event, void *data)
{
	uint64_t addr = (uint64_t)object;

	(void)data;
	if (sosc_objects_count && addr && event <= REF_DESTROYED) {
		uint32_t shift = shift_of(addr);
		uint64_t block = block_of(addr, shift);
		uint32_t *word = word_of(block);

		if (event == REF_DESTROYED) {
			if (word && *word)
				*word |= SOSC_SIDE_DYING;
		} else if (!is_risen(addr, word)) {
			created(addr, shift, word);
		}
	}
	return former ? former(object, event, former_data) : 0;
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

static void picked_freed(uint64_t block)
{
	uint32_t *word = sosc_side_at(block);

	if (word && *word)
		uncount(block, word);
}

static void freed(void *ctx, void *block)
{
	if (sosc_objects_count && !sosc_picks.is_on)
		sosc_object_freed((uint64_t)block);
	else if (sosc_objects_count && sosc_picks_may_be((uint64_t)block))
		picked_freed((uint64_t)block);
	allocator.free(ctx, block);
}

// The object that is made of the new block announces itself; if there is none, the old one stays.
static void *resized(void *ctx, void *block, size_t size)
{
	uint32_t *word = sosc_objects_count ? word_of((uint64_t)block) : NULL, was = 0;
	void *made;

	sosc_picks.asked = size;
	if (word && *word) {
		was = *word;
		if (sosc_picks.is_on)
			uncount((uint64_t)block, word);
		else
			sosc_object_freed((uint64_t)block);
	}
	made = allocator.realloc(ctx, block, size);
	if (!made && was) {
		*word = was;
		if (sosc_picks.is_on)
			sosc_picks_mark((uint64_t)block);
		else
			sosc_objects_tally.destroyed--;
	}
	return made;
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

	sosc_python.PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &now);
	if ((now.free == freed) == is_ours)
		return true;
	if (!is_ours) {
		sosc_python.PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &allocator);
		return true;
	}
	if (reaches_us(&now))
		return true;
	allocator = now;
	now.realloc = resized;
	if (sosc_picks.is_wanted) {
		now.malloc = allocated;
		now.calloc = allocated_zeros;
	}
	now.free = freed;
	sosc_python.PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &now);
	sosc_python.PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &now);
	return now.free == freed;
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
