// SPDX-License-Identifier: Apache-2.0
// Blocks of which some are recorded: each byte that a thread allocates is chosen by chance, one in
// so many, and a block with a chosen byte is recorded as it would be in EXACT.
//
// How many bytes it is until the next one that is chosen is drawn beforehand: the assembly counts
// them down, and comes here when a block has it. So what is not chosen costs a few instructions.
// One byte is added to each block: those of size 0 are chosen, too.
//
// A block that is recorded has a mark: a bit of its address, in tables that cover what addresses
// there are. Its end is recorded by who takes the mark away, before the block is freed: whoever
// gets the memory next finds no mark, and may set one. So no mark is ever another block's, and a
// free that finds none has nothing to say. Blocks lie at multiples of 8. Few blocks have a mark: so
// the number of those with the same bits in the middle of their address answers for nearly all.

#include "base/memory.h"
#include "base/sampling.h"
#include "base/sys.h"
#include "blocks/blocks.h"
#include "image/image.h"
#include "thread/thread.h"

enum {
	MARKS_SIZE = MARK_LEAVES * 8,
	LEAF_SIZE = 1 << (MARK_BITS - 6),
	MADV_NOHUGEPAGE = 15, // a mark is to take one page
	MANY = 255, // stays what it is
};

uint64_t *sosc_block_marks; // addrs of leaves, MARK_ALL, or 0: there is no mark
uint8_t sosc_block_marked[1 << MARKED_BITS]; // marks that there are, or MANY
static uint64_t scale; // bytes, times 2^16, per unit of a logarithm to base 2

static void *map_zeros(uint64_t size)
{
	void *map = sosc_memory_map(size);

	if (map)
		(void)sosc_sys3(SYS_MADVISE, (long)map, (long)size, MADV_NOHUGEPAGE);
	return map;
}

/** A session begins that samples; whether there is memory for it. */
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

// One mark more of such an address, or one less: @by.
static void count(uint64_t addr, int by)
{
	uint8_t *place = &sosc_block_marked[addr >> MARKED_SHIFT & ((1 << MARKED_BITS) - 1)];
	uint8_t marks = __atomic_load_n(place, __ATOMIC_RELAXED);

	while (marks != MANY &&
	       !__atomic_compare_exchange_n(place, &marks, (uint8_t)(marks + by), false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

// Where no leaf can be made, all blocks count as marked: then an end is recorded too often.
static uint64_t make_leaf(const struct sosc_thread *thread, uint64_t *place)
{
	void *map = sosc_is_sealed(thread) ? NULL : map_zeros(LEAF_SIZE);
	uint64_t mine = map ? (uint64_t)map : MARK_ALL, theirs = 0;

	if (!map) // before anybody is told that all have one
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

// Whether the block at @addr may have been recorded: it has no mark any more.
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

// Whether a block of so many bytes is chosen.
static bool is_chosen(struct sosc_block_thread *state, uint64_t size)
{
	uint64_t bytes = size + 1, left;

	if ((int64_t)bytes < 0)
		return true;
	left = sosc_local_add(&state->left, -bytes);
	return (int64_t)left <= (int64_t)bytes;
}

// ---- calls -------------------------------------------------------------------

// The block at @addr is about to be freed, which may have been recorded.
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

// As in EXACT; but a function that calls another one does what there is to do for both. It says how
// many bytes it has counted: a call inside of it that asks for fewer makes a block of its own.
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

#define ALLOCATES(name, old, size, out, api)                                                      \
	uint64_t sosc_sample_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp, \
				    struct sosc_cell *cell)                                       \
	{                                                                                         \
		const uint64_t arg[3] = {a, b, c};                                                \
                                                                                                  \
		return allocate(arg, sp, fp, cell, old, size, out, api);                          \
	}

SOSC_BLOCK_ALLOCATORS(ALLOCATES)

/** free, and what it is called besides, of a block that has a mark. */
uint64_t sosc_sample_free(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			  struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};

	if (a && sosc_block_call_begin(&call) && take_mark(a))
		freed(&call, a);
	return sosc_block_go_on(cell, a, b, c);
}
