// SPDX-License-Identifier: Apache-2.0
// The references in parts, and the set of objects that were visited. A full part is handed to
// soscope, which copies the words while the interpreter waits. Then the same memory is used again.

#include "objects/common/refs.h"
#include "base/sys.h"

enum {
	PART = 1 << 19, // words of a part
	PIECE = 1 << 20, // bytes of memory that are mapped at once
	TOPS = SOSC_SIDE_TOPS,
	LEAVES = SOSC_SIDE_LEAVES,
	BITS = SOSC_SIDE_WORDS, // one bit for each 16 bytes of a MiB
};

struct piece {
	struct piece *former;
	uint64_t size;
};

struct sosc_refs sosc_refs;

static uint64_t *words;
static uint64_t holder; // word of the holder, 0 if it has been written
static bool is_over; // soscope does not read any more
static struct piece *pieces;
static uint64_t piece_used;
static uint8_t **met[TOPS];

/**
 * Return memory, filled with zeros, that lasts until sosc_refs_end. Return NULL if there is none.
 */
void *sosc_refs_take(uint64_t size)
{
	uint64_t whole = size + sizeof(*pieces) > PIECE ? size + sizeof(*pieces) : PIECE;
	uint8_t *taken;

	if (!pieces || pieces->size - piece_used < size) {
		struct piece *made = sosc_mmap(NULL, whole, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (sosc_mmap_failed(made))
			return NULL;
		made->former = pieces;
		made->size = whole;
		pieces = made;
		piece_used = sizeof(*pieces);
	}
	taken = (uint8_t *)pieces + piece_used;
	piece_used += size;
	return taken;
}

static void give_back(void)
{
	while (pieces) {
		struct piece *former = pieces->former;

		(void)sosc_sys3(SYS_MUNMAP, (long)pieces, (long)pieces->size, 0);
		pieces = former;
	}
}

/** Begin. Return whether there is memory for it. */
bool sosc_refs_begin(void)
{
	memset(met, 0, sizeof(met));
	memset(&sosc_refs, 0, sizeof(sosc_refs));
	holder = 0;
	is_over = false;
	words = sosc_refs_take(sizeof(*words) * PART);
	sosc_refs.words = (uint64_t)words;
	return words;
}

static void hand_over(void)
{
	is_over = is_over || !sosc_objects_ask(SOSC_OBJECTS_HAS_REFS);
	sosc_refs.count = 0;
}

static void put(uint64_t word)
{
	if (sosc_refs.count == PART)
		hand_over();
	words[sosc_refs.count++] = word;
}

/** The following references are held by the object at @address. */
void sosc_refs_holder(uint64_t address, enum sosc_ref kind)
{
	holder = address | kind;
}

/** The holder refers to an object. */
void sosc_refs_tell(uint64_t object, enum sosc_ref kind)
{
	if (is_over)
		return;
	if (holder)
		put(holder);
	holder = 0;
	put(object | kind);
}

/**
 * Return whether this is the first call for this object. Return false, too, if there is no memory
 * to note it.
 */
bool sosc_refs_is_first(uint64_t object)
{
	uint64_t top = object >> 34, leaf = object >> 20 & (LEAVES - 1);
	uint32_t at = object >> 4 & (BITS - 1);
	uint8_t bit = (uint8_t)(1 << (at & 7)), *bits;
	bool is_first;

	if (top >= TOPS)
		return false;
	if (!met[top])
		met[top] = sosc_refs_take(sizeof(*met[top]) * LEAVES);
	if (!met[top])
		return false;
	if (!met[top][leaf])
		met[top][leaf] = sosc_refs_take(BITS / 8);
	bits = met[top][leaf];
	if (!bits) {
		sosc_refs.lost++;
		return false;
	}
	is_first = !(bits[at >> 3] & bit);
	bits[at >> 3] |= bit;
	return is_first;
}

/**
 * All references have been written. soscope now reads the objects, which are still in the state in
 * which their references were read.
 */
void sosc_refs_end(void)
{
	sosc_refs.is_last = 1;
	if (!is_over)
		hand_over();
	sosc_refs.words = 0;
	give_back();
}
