// SPDX-License-Identifier: Apache-2.0
// Sampling of blocks: each byte that a thread allocates is chosen with the same probability. A
// block with a chosen byte is recorded as in EXACT.
//
// The distance to the next chosen byte is drawn beforehand. The assembly counts it down, and calls
// this file when a block contains the chosen byte. So blocks that are not chosen cost a few
// instructions. One byte is added to the size of each block, so that blocks of size 0 can be
// chosen, too.
//
// A recorded block has a mark: a bit for its address, in tables that cover all addresses. The code
// that removes the mark records the free, before the block is freed. If another thread gets the
// memory next, it finds no mark, and may set one. So a mark never belongs to another block, and a
// free that finds no mark has nothing to record. Blocks lie at multiples of 8. Few blocks have a
// mark, so counting the marks whose addresses share certain middle bits is enough to answer for
// nearly all blocks.

#include "base/memory.h"
#include "base/sampling.h"
#include "base/sys.h"
#include "blocks/blocks.h"
#include "image/image.h"
#include "thread/thread.h"

enum {
	MARKS_SIZE = MARK_LEAVES * 8,
	LEAF_SIZE = 1 << (MARK_BITS - 6),
	MADV_NOHUGEPAGE = 15, // so that a mark brings only one page into memory
	MANY = 255, // a count that has reached this never changes
};

uint64_t *sosc_block_marks; // addresses of leaves, MARK_ALL, or 0: no marks
uint8_t sosc_block_marked[1 << MARKED_BITS]; // number of marks, or MANY
static uint64_t scale; // as in struct sosc_blocks

static void *map_zeros(uint64_t size)
{
	void *map = sosc_memory_map(size);

	if (map)
		(void)sosc_sys3(SYS_MADVISE, (long)map, (long)size, MADV_NOHUGEPAGE);
	return map;
}

/** A session begins that samples. Return whether there is memory for it. */
bool sosc_sample_start(const struct sosc_blocks *given)
{
	scale = given->scale;
	memset(sosc_block_marked, 0, sizeof(sosc_block_marked));
	if (!sosc_block_marks) {
		sosc_block_marks = map_zeros(MARKS_SIZE);
		if (sosc_block_marks)
			sosc_memory_keep(sosc_block_marks, MARKS_SIZE, &sosc_block_marks);
		return sosc_block_marks;
	}
	for (uint32_t i = 0; i < MARK_LEAVES; i++)
		if (sosc_block_marks[i] > MARK_ALL)
			(void)sosc_sys3(SYS_MADVISE, (long)sosc_block_marks[i], LEAF_SIZE,
					MADV_DONTNEED);
		else if (sosc_block_marks[i] == MARK_ALL)
			memset(sosc_block_marked, MANY, sizeof(sosc_block_marked));
	return true;
}

// ---- marks -------------------------------------------------------------------

static inline uint64_t *leaf_of(uint64_t addr)
{
	return &sosc_block_marks[addr >> MARK_BITS & (MARK_LEAVES - 1)];
}

static inline uint32_t *word_of(uint64_t leaf, uint64_t addr)
{
	return (uint32_t *)leaf + ((addr & ((1ull << MARK_BITS) - 1)) >> 8);
}

static inline uint32_t bit_of(uint64_t addr)
{
	return 1u << (addr >> 3 & 31);
}

// Adds @by (1 or -1) to the number of marks of such addresses.
static void count(uint64_t addr, int by)
{
	uint8_t *place = &sosc_block_marked[addr >> MARKED_SHIFT & ((1 << MARKED_BITS) - 1)];
	uint8_t marks = __atomic_load_n(place, __ATOMIC_RELAXED);

	while (marks != MANY &&
	       !__atomic_compare_exchange_n(place, &marks, (uint8_t)(marks + by), false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

// If no leaf can be made, all its blocks count as marked. Then too many frees are recorded.
static uint64_t make_leaf(const struct sosc_thread *thread, uint64_t *place)
{
	void *map = sosc_is_sealed(thread) ? NULL : map_zeros(LEAF_SIZE);
	uint64_t mine = map ? (uint64_t)map : MARK_ALL, theirs = 0;

	if (!map) // before other threads see that all blocks there count as marked
		memset(sosc_block_marked, MANY, sizeof(sosc_block_marked));
	if (__atomic_compare_exchange_n(place, &theirs, mine, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		if (map)
			sosc_memory_keep(map, LEAF_SIZE, NULL);
		return mine;
	}
	if (map)
		(void)sosc_sys3(SYS_MUNMAP, (long)map, LEAF_SIZE, 0);
	return theirs;
}

static void mark(const struct sosc_block_call *call, uint64_t addr)
{
	uint64_t *place = leaf_of(addr), leaf = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	if (!leaf)
		leaf = make_leaf(call->thread, place);
	if (leaf != MARK_ALL &&
	    !(__atomic_fetch_or(word_of(leaf, addr), bit_of(addr), __ATOMIC_RELEASE) &
	      bit_of(addr)))
		count(addr, 1);
}

// Removes the mark of the block at @addr. Returns whether the block may have been recorded.
static bool take_mark(uint64_t addr)
{
	uint64_t leaf = __atomic_load_n(leaf_of(addr), __ATOMIC_ACQUIRE);
	uint32_t bit = bit_of(addr);

	if (leaf <= MARK_ALL)
		return leaf == MARK_ALL;
	if (!(__atomic_load_n(word_of(leaf, addr), __ATOMIC_RELAXED) & bit))
		return false;
	if (!(__atomic_fetch_and(word_of(leaf, addr), ~bit, __ATOMIC_ACQ_REL) & bit))
		return false;
	count(addr, -1);
	return true;
}

// ---- chance ------------------------------------------------------------------

static void draw(struct sosc_block_thread *state)
{
	state->left = sosc_chance_draw(&state->seed, scale);
}

/** A thread makes its first call. */
void sosc_sample_thread(struct sosc_block_thread *state, uint32_t tid)
{
	state->seed = sosc_chance_seed((uint64_t)tid << 40 ^ (uint64_t)state);
	draw(state);
	__atomic_store_n(&state->tp, sosc_thread_pointer(), __ATOMIC_RELEASE);
}

// Returns whether a block of this size is chosen.
static bool is_chosen(struct sosc_block_thread *state, uint64_t size)
{
	uint64_t bytes = size + 1, left;

	if ((int64_t)bytes < 0)
		return true;
	left = sosc_local_add(&state->left, -bytes);
	return (int64_t)left <= (int64_t)bytes;
}

// ---- calls -------------------------------------------------------------------

// Records that the block at @addr, which may have been recorded, is about to be freed.
static void freed(const struct sosc_block_call *call, uint64_t addr)
{
	struct sosc_block_thread *state = call->state;
	bool is_last = state->recorded == addr && state->left == state->drawn;

	if (state->recorded == addr)
		state->recorded = 0;
	(void)sosc_block_write(call, SOSC_UNIT_FREED, addr, is_last, 0);
}

static void made(const struct sosc_block_call *call, uint64_t addr, uint64_t size, uint32_t stack)
{
	if (!sosc_block_write(call, SOSC_UNIT_BLOCK, addr, size, stack))
		return;
	mark(call, addr);
	call->state->recorded = addr;
	call->state->drawn = call->state->left;
}

// The same as in EXACT, but a function that calls another one does the work for both. It notes how
// many bytes it has counted. If a call inside it requests fewer bytes, that call makes a block of
// its own.
static uint64_t allocate(const uint64_t arg[3], uint64_t sp, uint64_t fp, struct sosc_cell *cell,
			 uint64_t old, uint64_t size, const uint64_t *out, enum sosc_block_api api)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};
	struct sosc_block_thread *state, before;
	bool chosen = false, ends = false, inside;
	uint64_t result, addr;
	uint32_t stack = 0;

	if (!sosc_block_call_begin(&call))
		return sosc_block_go_on(cell, arg[0], arg[1], arg[2]);
	state = call.state;
	if (old && take_mark(old)) {
		freed(&call, old);
		ends = true;
	}
	inside = sosc_block_is_inside(&call, BLOCK_NEAR);
	before = *state;
	if (!inside || size + 1 < before.asked) {
		chosen = is_chosen(state, size);
		if (chosen) {
			draw(state);
			stack = sosc_block_stack(&call, api);
		}
	}
	sosc_block_set_none(state);
	state->asked = size + 1;
	sosc_block_set_open(state, sp, sosc_returns_to(&call));
	result = sosc_block_go_on(cell, arg[0], arg[1], arg[2]);
	sosc_block_set_none(state);
	state->asked = before.asked;
	sosc_block_set_open(state, before.sp, before.ret);
	addr = sosc_block_addr(result, out);
	if (addr && chosen) {
		made(&call, addr, size, stack);
	} else if (!addr && ends && size) {
		(void)sosc_block_write(&call, SOSC_UNIT_KEPT, old, 0, 0);
		mark(&call, old);
	}
	return result;
}

#define ALLOCATES(name, ...)                                                                      \
	uint64_t sosc_sample_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp, \
				    struct sosc_cell *cell)                                       \
	{                                                                                         \
		const uint64_t arg[3] = {a, b, c};                                                \
                                                                                                  \
		return allocate(arg, sp, fp, cell, SOSC_BLOCK_OF_ROW(name, __VA_ARGS__));         \
	}

SOSC_FAMILY_MAKERS(ALLOCATES)

/** free and its other names, for a block that has a mark. */
uint64_t sosc_sample_free(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			  struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};

	if (a && sosc_block_call_begin(&call) && take_mark(a))
		freed(&call, a);
	return sosc_block_go_on(cell, a, b, c);
}
