// SPDX-License-Identifier: Apache-2.0
// Sampling of CPython's objects. Nearly all objects that are announced are not chosen. The path for
// these makes no call, saves no register and has only two tests. Everything else is tested only if
// there is a mark. While nothing is being chosen, there is a mark everywhere.
//
// The size of an object is the basic size of its type: how much larger it is, it tells only after
// it has been announced. If the allocator was asked for a large block before, the size of the block
// is taken.

#include "objects/python/pythonpicks.h"
#include "objects/common/picks.h"
#include "objects/python/pythonblock.h"
#include "vm/origin.h"

enum { SIZE_MAX_KEPT = 1 << 30 }; // bytes: a larger object has a chosen byte anyway

static struct sosc_allocator raw; // the allocator that was set before

static __attribute__((noinline)) int pick(uint64_t object, uint64_t bytes)
{
	uint32_t shift = sosc_python_shift_of(object);
	uint32_t size = bytes < SIZE_MAX_KEPT ? (uint32_t)bytes : SIZE_MAX_KEPT;

	sosc_picks_draw();
	sosc_picks_made(sosc_python_block(object, shift), shift, sosc_python_origin(size, NULL));
	return 0;
}

static inline __attribute__((always_inline)) int created(uint64_t object, uint64_t bytes)
{
	sosc_objects_tally.created++;
	sosc_picks.left -= (int64_t)bytes + 1;
	return __builtin_expect(sosc_picks.left <= 0, 0) ? pick(object, bytes) : 0;
}

static inline uint64_t basic_size(uint64_t object)
{
	return sosc_word(sosc_word(object + SOSC_TYPE) + SOSC_TYPE_BASIC_SIZE);
}

static inline bool is_special(uint64_t object)
{
	return __builtin_expect(sosc_picks_may_be(object) || sosc_picks.asked, 0);
}

static bool goes_on(uint64_t object, bool (*has_risen)(uint64_t))
{
	uint64_t block = sosc_python_block(object, sosc_python_shift_of(object));
	uint32_t *word = sosc_side_at(block);

	if (!word || !*word)
		return false;
	if (has_risen(object)) {
		*word &= ~(uint32_t)SOSC_SIDE_DYING;
		return true;
	}
	sosc_picks_gone(block, word); // the former object in this block has ended
	return false;
}

static int begins(uint64_t object, bool (*has_risen)(uint64_t))
{
	uint64_t asked = sosc_picks.asked;

	if (sosc_picks_may_be(object) && goes_on(object, has_risen))
		return 0;
	sosc_picks.asked = 0;
	return created(object, asked ? sosc_picks_coarse(asked) : basic_size(object));
}

static __attribute__((noinline)) int referenced_specially(uint64_t object)
{
	if (!sosc_picks.is_on)
		return sosc_python_referenced(object);
	return sosc_objects_count ? begins(object, sosc_python_is_referenced) : 0;
}

/** The same as sosc_python_referenced, with sampling. */
int sosc_python_referenced_pick(uint64_t object)
{
	return is_special(object) ? referenced_specially(object) :
				    created(object, basic_size(object));
}

static __attribute__((noinline)) int traced_specially(uint64_t object, int event)
{
	uint32_t *word;

	if (!sosc_picks.is_on)
		return sosc_python_traced((void *)object, event, NULL);
	if (!sosc_objects_count || !object)
		return 0;
	if (event == SOSC_REF_CREATED)
		return begins(object, sosc_python_has_finalizer);
	word = sosc_side_at(sosc_python_block(object, sosc_python_shift_of(object)));
	if (event == SOSC_REF_DESTROYED && word && *word)
		*word |= SOSC_SIDE_DYING;
	return 0;
}

/** The same as sosc_python_traced, with sampling. */
int sosc_python_traced_pick(void *object, int event, void *data)
{
	(void)data;
	if (is_special((uint64_t)object))
		return traced_specially((uint64_t)object, event);
	if (event != SOSC_REF_CREATED)
		return 0;
	return created((uint64_t)object, basic_size((uint64_t)object));
}

// ---- large blocks --------------------------------------------------------------------

// The allocator of objects gets large blocks from the raw allocator. Other threads may call that
// without the interpreter's lock, too. Then an object is chosen by the size of their block instead
// of its own. Its origin has the same size, so its weight is still right.
static void *raw_allocated(void *ctx, size_t size)
{
	if (size > PICKS_FEW)
		sosc_picks.asked = size;
	return raw.malloc(ctx, size);
}

static void *raw_cleared(void *ctx, size_t count, size_t size)
{
	size_t all;

	if (!__builtin_mul_overflow(count, size, &all) && all > PICKS_FEW)
		sosc_picks.asked = all;
	return raw.calloc(ctx, count, size);
}

static void *raw_resized(void *ctx, void *block, size_t size)
{
	if (size > PICKS_FEW)
		sosc_picks.asked = size;
	return raw.realloc(ctx, block, size);
}

/**
 * Set the agent's raw allocator, which notes the sizes of large blocks, or restore the one before.
 */
void sosc_python_hear_of_large(bool is_ours)
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
	now.calloc = raw_cleared;
	now.realloc = raw_resized;
	sosc_python.PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &now);
}
