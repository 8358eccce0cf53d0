// SPDX-License-Identifier: Apache-2.0
// Blocks counted by function and size class, without stack, record or clock.
//
// When a block is freed, it must be known how it was counted. A word of 16 bits for each 8 bytes of
// addresses stores that at the block's address: the function, and the size if it fits. Otherwise
// the size is in the next words, which belong to the block, too. The word is written after the
// block was made, and cleared before the block is freed. No other thread can have the address in
// between, so plain stores are enough. Blocks lie at multiples of 8. The words lie in leaves, which
// take a quarter of the address space that contains blocks. Leaves are small, to leave address
// space to programs with a limit.

#include "base/memory.h"
#include "base/sys.h"
#include "blocks/blocks.h"
#include "thread/thread.h"

enum {
	LEAF_BITS = 20, // bits of the addresses that a leaf covers
	TABLE_BITS = 13, // log2 of the number of leaves in a table
	TABLES_BITS = 47 - LEAF_BITS - TABLE_BITS,
	TABLE_SIZE = 8 << TABLE_BITS,
	TAIL = SOSC_PAGE, // room for the size of a block at the end of a leaf
	LEAF_SIZE = (1 << (LEAF_BITS - 2)) + TAIL,
	NONE = 1, // in place of a table or a leaf: there is no memory for it
	MADV_NOHUGEPAGE = 15,
	SIZE_BITS = SOSC_SIZES_APIS <= 16 ? 12 : 11, // bits of a word for the size
	LONG = (1 << SIZE_BITS) - 1, // the size is in the next words
	API_SHIFT = 48 + SIZE_BITS, // position of the function in what is known of a block
	COARSE = SOSC_SIZES_FINE / SOSC_SIZES_STEP, // first class of the larger sizes
	FINE_BITS = 10, // log2 of SOSC_SIZES_FINE
};

_Static_assert(SOSC_SIZES_APIS <= 1 << (16 - SIZE_BITS), "a word holds the function and the size");

static uint64_t tables[1 << TABLES_BITS]; // addresses of tables, NONE, or 0: no blocks
static const struct sosc_blocks *given;
static struct sosc_blocks *table;
static struct sosc_sizes *arrays;

static void *map_zeros(uint64_t size, bool wiped)
{
	void *map = sosc_memory_map(size);

	if (!map)
		return NULL;
	(void)sosc_sys3(SYS_MADVISE, (long)map, (long)size, MADV_NOHUGEPAGE);
	// a child does not count frees of its parent's blocks
	if (wiped)
		(void)sosc_sys3(SYS_MADVISE, (long)map, (long)size, MADV_WIPEONFORK);
	return map;
}

// Clears leaves or tables. Entries for which there was no memory become empty again.
static void clear(uint64_t *places, uint32_t count, void (*each)(uint64_t addr))
{
	for (uint32_t i = 0; i < count; i++)
		if (places[i] > NONE)
			each(places[i]);
		else
			places[i] = 0;
}

static void clear_leaf(uint64_t leaf)
{
	(void)sosc_sys3(SYS_MADVISE, (long)leaf, LEAF_SIZE, MADV_DONTNEED);
}

static void clear_table(uint64_t addr)
{
	clear((uint64_t *)addr, 1 << TABLE_BITS, clear_leaf);
}

/** A session begins that counts. */
void sosc_sizes_start(const struct sosc_blocks *told, struct sosc_blocks *own)
{
	given = told;
	table = own;
	arrays = (struct sosc_sizes *)((uint8_t *)own + told->first_array);
	clear(tables, 1 << TABLES_BITS, clear_table);
}

// Takes an array of counters for a thread that has none.
static struct sosc_sizes *take_array(const struct sosc_thread *thread)
{
	uint32_t pid = sosc_is_sealed(thread) ? thread->pid :
						(uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	uint32_t index = __atomic_fetch_add(&table->arrays_used, 1, __ATOMIC_RELAXED);
	struct sosc_sizes *array = &arrays[index];

	if (index >= given->arrays) {
		__atomic_store_n(&table->arrays_used, given->arrays, __ATOMIC_RELAXED);
		return arrays;
	}
	array->tid = thread->tid;
	__atomic_store_n(&array->pid, pid, __ATOMIC_RELEASE);
	return array;
}

// ---- words -------------------------------------------------------------------

// Maps memory for a table or a leaf. If another thread was faster, its memory is used.
static __attribute__((noinline)) uint64_t make(const struct sosc_thread *thread, uint64_t *place,
					       uint64_t size)
{
	void *map = sosc_is_sealed(thread) ? NULL : map_zeros(size, size == LEAF_SIZE);
	uint64_t mine = map ? (uint64_t)map : NONE, theirs = 0;

	if (__atomic_compare_exchange_n(place, &theirs, mine, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		// the entry for a leaf lies in a table, which is unmapped, too
		if (map)
			sosc_memory_keep(map, size, size == LEAF_SIZE ? NULL : place);
		return mine;
	}
	if (map)
		(void)sosc_sys3(SYS_MUNMAP, (long)map, (long)size, 0);
	return theirs;
}

// Returns the address at @place, NONE or 0. @thread: the thread that may make the table or leaf;
// if it is NULL, nothing is made.
static inline uint64_t at_place(uint64_t *place, const struct sosc_thread *thread, uint64_t size)
{
	uint64_t addr = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	return addr || !thread ? addr : make(thread, place, size);
}

// Returns the word of an address, or NULL. @thread: the thread that may make a leaf, NULL if it is
// not made.
static inline uint16_t *word_of(uint64_t addr, const struct sosc_thread *thread)
{
	uint64_t *place = &tables[addr >> (LEAF_BITS + TABLE_BITS) & ((1 << TABLES_BITS) - 1)];
	uint64_t found = at_place(place, thread, TABLE_SIZE);

	if (found <= NONE)
		return NULL;
	place = (uint64_t *)found + (addr >> LEAF_BITS & ((1 << TABLE_BITS) - 1));
	found = at_place(place, thread, LEAF_SIZE);
	if (found <= NONE)
		return NULL;
	return (uint16_t *)found + ((addr & ((1ull << LEAF_BITS) - 1)) >> 3);
}

static inline void note(uint16_t *word, uint64_t size, uint32_t api)
{
	if (size < LONG) {
		*word = (uint16_t)(api << SIZE_BITS | size);
		return;
	}
	*word = (uint16_t)(api << SIZE_BITS | LONG);
	for (uint32_t i = 0; i < 4; i++)
		word[1 + i] = (uint16_t)(size >> 16 * i);
}

// Reads and clears a word: function and size, 0 if no block begins there.
static inline uint64_t take(uint16_t *word)
{
	uint64_t api = *word >> SIZE_BITS, size = *word & LONG;

	*word = 0;
	if (api && size == LONG) {
		size = 0;
		for (uint32_t i = 0; i < 4; i++) {
			size |= (uint64_t)word[1 + i] << 16 * i;
			word[1 + i] = 0;
		}
	}
	return api << API_SHIFT | size;
}

// ---- counters ----------------------------------------------------------------

static inline uint32_t class_of(uint64_t size)
{
	uint64_t last = size - !!size; // so that a class ends at a round size

	if (last < SOSC_SIZES_FINE)
		return (uint32_t)(last / SOSC_SIZES_STEP);
	return COARSE + (63 - FINE_BITS) - (uint32_t)__builtin_clzll(last);
}

static inline void add(const struct sosc_block_call *call, uint64_t *at, uint64_t amount)
{
	if (call->state->sizes == arrays)
		__atomic_fetch_add(at, amount, __ATOMIC_RELAXED);
	else // one instruction, because a signal handler may count here, too
		sosc_local_increase(at, amount);
}

static inline struct sosc_sizes *sizes_of(const struct sosc_block_call *call)
{
	if (!call->state->sizes)
		call->state->sizes = take_array(call->thread);
	return call->state->sizes;
}

static inline struct sosc_size_class *class_at(const struct sosc_block_call *call, uint32_t api,
					       uint64_t size)
{
	struct sosc_size_class *classes = (void *)sizes_of(call)->classes;

	return &classes[api * SOSC_SIZES_CLASSES + class_of(size)];
}

// Counts the end of a block, of which @known is known.
static inline void end(const struct sosc_block_call *call, uint64_t known)
{
	uint64_t size = known & ((1ull << API_SHIFT) - 1);
	struct sosc_size_class *class = class_at(call, (uint32_t)(known >> API_SHIFT), size);

	add(call, &class->freed, 1);
	add(call, &class->freed_bytes, size);
}

// Two blocks cannot have the same address: a call takes over the block that a call inside it has
// made.
static __attribute__((noinline)) void take_over(const struct sosc_block_call *call, uint16_t *word)
{
	end(call, take(word));
}

/** A call of function @api has made a block. */
void sosc_sizes_made(const struct sosc_block_call *call, uint64_t addr, uint64_t size, uint32_t api)
{
	struct sosc_size_class *class;
	uint16_t *word;

	if (!api || api >= SOSC_SIZES_APIS) // the call was begun in an earlier session
		return;
	class = class_at(call, api, size);
	word = word_of(addr, call->thread);
	add(call, &class->made, 1);
	add(call, &class->made_bytes, size);
	if (word) {
		if (__builtin_expect(*word, 0))
			take_over(call, word);
		note(word, size, api);
		return;
	}
	add(call, &call->state->sizes->untracked, 1);
	add(call, &call->state->sizes->untracked_bytes, size);
}

/** The block at @addr is about to be freed. Return what was known of it, or 0 if nothing was. */
uint64_t sosc_sizes_freed(const struct sosc_block_call *call, uint64_t addr)
{
	uint16_t *word = word_of(addr, NULL);
	uint64_t known = word ? take(word) : 0;

	if (known)
		end(call, known);
	else
		add(call, &sizes_of(call)->strange, 1);
	return known;
}

/** The call has failed, and the block was not freed. @known is the result of `sosc_sizes_freed`. */
void sosc_sizes_kept(const struct sosc_block_call *call, uint64_t addr, uint64_t known)
{
	uint64_t size = known & ((1ull << API_SHIFT) - 1);
	struct sosc_size_class *class;

	if (!known) {
		add(call, &sizes_of(call)->strange, (uint64_t)-1);
		return;
	}
	note(word_of(addr, NULL), size, (uint32_t)(known >> API_SHIFT));
	class = class_at(call, (uint32_t)(known >> API_SHIFT), size);
	add(call, &class->freed, (uint64_t)-1);
	add(call, &class->freed_bytes, -size);
}
