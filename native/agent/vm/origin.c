// SPDX-License-Identifier: Apache-2.0
// A code object may be gone when its objects are examined, and another code object may have its
// address. So an origin is identified by all pointers in a code object, and the texts that are
// needed are copied when the code object is seen first. The texts may be gone, too, and other texts
// may have their addresses. So if code objects were made since an origin was last seen, the origin
// is compared with its copy.

#include "vm/origin.h"
#include "base/memory.h"
#include "base/sys.h"

enum {
	ORIGINS_MAX = 1 << 19,
	BITS_FIRST = 11, // log2 of the number of buckets
	BITS_MOST = 20, // twice as many as origins
	GROWTH = 2, // bits added at a time
	PIECE = 1 << 20, // bytes
	WHOLE_CODE = INT32_MIN, // an origin that stands for a code object, not an instruction
	GIVEN_UP = 2, // the lock is held, and a thread has waited for it in vain
};

struct sosc_objects_tally sosc_objects_tally;
struct sosc_origin *sosc_origins;
uint32_t *sosc_origin_locks;

struct buckets { // kept until the agent rests: another thread may still search older ones
	struct buckets *older;
	uint32_t shift; // shifts a hash to its bucket
	uint32_t mask;
	uint32_t numbers[]; // numbers of origins, 0 = free
};

struct piece { // memory from which copies are allocated
	struct piece *former;
	uint64_t size; // bytes, including this header
	uint8_t bytes[];
};

static struct buckets *buckets;
static uint32_t *hashes; // by number of an origin
static uint32_t *epochs; // by number of an origin: the epoch in which it was last compared
static struct piece *piece;
static uint64_t piece_used; // bytes in use

static void put(struct buckets *into, uint32_t number)
{
	uint32_t at = hashes[number] >> into->shift;

	while (into->numbers[at])
		at = (at + 1) & into->mask;
	__atomic_store_n(&into->numbers[at], number, __ATOMIC_RELEASE);
}

static uint64_t size_of_buckets(uint64_t count)
{
	return sizeof(*buckets) + sizeof(*buckets->numbers) * count;
}

// Makes a larger table. Small tables stay in few pages and in the cache. A thread that searches an
// older table may miss an origin, and then searches again with the lock.
static bool grow(uint32_t bits)
{
	struct buckets *made = sosc_memory_map(size_of_buckets(1ull << bits));

	if (!made)
		return false;
	made->older = buckets;
	made->shift = 32 - bits;
	made->mask = (1u << bits) - 1;
	for (uint32_t i = ORIGINS_FIRST; i < sosc_objects_tally.origin_count; i++)
		put(made, i);
	__atomic_store_n(&buckets, made, __ATOMIC_RELEASE);
	return true;
}

static bool has_room(void)
{
	uint64_t size = (uint64_t)buckets->mask + 1;
	uint32_t bits = 32 - buckets->shift + GROWTH;

	if (sosc_objects_tally.origin_count < size / 2)
		return true;
	return grow(bits < BITS_MOST ? bits : BITS_MOST) ||
	       sosc_objects_tally.origin_count < size - 1;
}

// Locks are wiped in a forked child, because the thread that holds a lock does not exist there. It
// has left nothing half done.
static uint32_t *make_locks(void)
{
	uint32_t *made = sosc_memory_map(sizeof(*made) * ORIGIN_LOCKS);

	if (made)
		(void)sosc_sys3(SYS_MADVISE, (long)made, sizeof(*made) * ORIGIN_LOCKS,
				MADV_WIPEONFORK);
	return made;
}

/** Return whether there is memory for origins. */
bool sosc_origins_init(void)
{
	if (!sosc_origins)
		sosc_origins = sosc_memory_map(sizeof(*sosc_origins) * ORIGINS_MAX);
	if (!hashes)
		hashes = sosc_memory_map(sizeof(*hashes) * ORIGINS_MAX);
	if (!epochs)
		epochs = sosc_memory_map(sizeof(*epochs) * ORIGINS_MAX);
	if (!sosc_origin_locks)
		sosc_origin_locks = make_locks();
	sosc_objects_tally.origins = (uint64_t)sosc_origins;
	if (!sosc_objects_tally.origin_count)
		sosc_objects_tally.origin_count = ORIGINS_FIRST;
	return sosc_origins && hashes && epochs && sosc_origin_locks &&
	       (buckets || grow(BITS_FIRST));
}

/**
 * The agent rests: unmap all of this. No thread is in the agent, and no number of an origin is in
 * use.
 */
void sosc_origins_rest(void)
{
	sosc_memory_unmap(sosc_origins, sizeof(*sosc_origins) * ORIGINS_MAX);
	sosc_memory_unmap(hashes, sizeof(*hashes) * ORIGINS_MAX);
	sosc_memory_unmap(epochs, sizeof(*epochs) * ORIGINS_MAX);
	sosc_memory_unmap(sosc_origin_locks, sizeof(*sosc_origin_locks) * ORIGIN_LOCKS);
	while (buckets) {
		struct buckets *older = buckets->older;

		sosc_memory_unmap(buckets, size_of_buckets((uint64_t)buckets->mask + 1));
		buckets = older;
	}
	while (piece) {
		struct piece *former = piece->former;

		sosc_memory_unmap(piece, piece->size);
		piece = former;
	}
	sosc_origins = NULL;
	hashes = epochs = sosc_origin_locks = NULL;
	sosc_objects_tally.origins = sosc_objects_tally.origin_count = 0;
}

// One address may belong to many code objects, one after the other.
static uint32_t hash_of(const struct sosc_origin *wanted)
{
	uint64_t lines = (uint64_t)(wanted->first_line ^ wanted->size << 8) << 32 |
			 (uint32_t)wanted->instr;
	uint64_t word = (wanted->code >> 4) * 0x9e3779b97f4a7c15 + lines * 0xc2b2ae3d27d4eb4f;

	word ^= word >> 29;
	word += (wanted->lines >> 4) * 0x165667b19e3779f9 +
		(wanted->file >> 4) * 0x27d4eb2f165667c5 + (wanted->name >> 4);
	word *= 0x9e3779b97f4a7c15;
	return (uint32_t)(word >> 32);
}

static bool is_code(const struct sosc_origin *a, const struct sosc_origin *b)
{
	return a->code == b->code && a->lines == b->lines && a->file == b->file &&
	       a->name == b->name && a->first_line == b->first_line && a->size == b->size &&
	       a->instr == b->instr;
}

/** Return the number of an origin that was seen before in this @epoch, or 0 if there is none. */
uint32_t sosc_origin_find(const struct sosc_origin *wanted, uint32_t epoch)
{
	const struct buckets *in = __atomic_load_n(&buckets, __ATOMIC_ACQUIRE);

	for (uint32_t at = hash_of(wanted) >> in->shift;; at = (at + 1) & in->mask) {
		uint32_t number = __atomic_load_n(&in->numbers[at], __ATOMIC_ACQUIRE);

		if (!number)
			return 0;
		if (__atomic_load_n(&epochs[number], __ATOMIC_RELAXED) == epoch &&
		    is_code(&sosc_origins[number], wanted))
			return number;
	}
}

static uint8_t *take(uint64_t size)
{
	uint64_t room = (size + 7) & ~7ull, all = room + sizeof(*piece);

	if (!piece || piece->size - piece_used < room) {
		struct piece *made;

		if (all < PIECE)
			all = PIECE;
		made = sosc_memory_map(all);
		if (!made)
			return NULL;
		*made = (struct piece){piece, all};
		piece = made;
		piece_used = sizeof(*piece);
	}
	piece_used += room;
	return (uint8_t *)piece + piece_used - room;
}

static uint32_t capped(uint32_t size, uint32_t most)
{
	return size < most ? size : most;
}

static struct sosc_code header_of(uint32_t first_line, const struct sosc_code_texts *texts)
{
	return (struct sosc_code){first_line,	     capped(texts->file.size, SOSC_CODE_TEXT),
				  texts->file.width, capped(texts->name.size, SOSC_CODE_TEXT),
				  texts->name.width, capped(texts->lines.size, SOSC_CODE_LINES)};
}

static uint64_t make_copy(uint32_t first_line, const struct sosc_code_texts *texts)
{
	const struct sosc_code header = header_of(first_line, texts);
	struct sosc_code *code = (void *)take(sizeof(*code) + header.file_size + header.name_size +
					      header.lines_size);
	uint8_t *to = (uint8_t *)(code + 1);

	if (!code)
		return 0;
	*code = header;
	memcpy(to, texts->file.data, header.file_size);
	memcpy(to + header.file_size, texts->name.data, header.name_size);
	memcpy(to + header.file_size + header.name_size, texts->lines.data, header.lines_size);
	return (uint64_t)code;
}

static bool is_same(const void *a, const void *b, uint32_t size)
{
	const uint8_t *left = a, *right = b;
	uint32_t i = 0;

	for (; i + 8 <= size; i += 8) {
		uint64_t these, those;

		memcpy(&these, left + i, 8);
		memcpy(&those, right + i, 8);
		if (these != those)
			return false;
	}
	for (; i < size; i++)
		if (left[i] != right[i])
			return false;
	return true;
}

static bool is_copy(const struct sosc_code *code, uint32_t first_line,
		    const struct sosc_code_texts *texts)
{
	const struct sosc_code header = header_of(first_line, texts);
	const uint8_t *at = (const uint8_t *)(code + 1);

	return is_same(code, &header, sizeof(header)) &&
	       is_same(at, texts->file.data, header.file_size) &&
	       is_same(at + header.file_size, texts->name.data, header.name_size) &&
	       is_same(at + header.file_size + header.name_size, texts->lines.data,
		       header.lines_size);
}

// Returns the number of an origin whose copy has the same contents, or 0 if there is none.
static uint32_t compare(const struct sosc_origin *wanted, const struct sosc_code_texts *texts)
{
	uint32_t at = hash_of(wanted) >> buckets->shift, number;

	for (; (number = buckets->numbers[at]); at = (at + 1) & buckets->mask) {
		const struct sosc_origin *origin = &sosc_origins[number];

		if (is_code(origin, wanted) &&
		    is_copy((const void *)origin->copy, wanted->first_line, texts))
			break;
	}
	return number;
}

// @hash: the hash under which it is entered.
static uint32_t add(const struct sosc_origin *wanted, uint32_t hash, uint64_t copy)
{
	uint32_t number = (uint32_t)sosc_objects_tally.origin_count;

	if (!copy || !has_room())
		return ORIGIN_UNKNOWN;
	sosc_origins[number] = *wanted;
	sosc_origins[number].copy = copy;
	hashes[number] = hash;
	sosc_objects_tally.origin_count = number + 1;
	put(buckets, number);
	return number;
}

static uint64_t mixed(uint64_t hash, const void *data, uint32_t size)
{
	const uint8_t *bytes = data;

	for (uint32_t i = 0; i < size; i += 8) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, size - i < 8 ? size - i : 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash;
}

// A copy is entered under the hash of its contents, because programs may keep making new code at
// the same address.
static uint32_t hash_of_copy(uint32_t first_line, const struct sosc_code_texts *texts)
{
	const struct sosc_code header = header_of(first_line, texts);
	uint64_t hash = mixed(1, &header, sizeof(header));

	hash = mixed(hash, texts->file.data, header.file_size);
	hash = mixed(hash, texts->name.data, header.name_size);
	hash = mixed(hash, texts->lines.data, header.lines_size);
	return (uint32_t)(hash * 0x9e3779b97f4a7c15 >> 32);
}

// The copy belongs to an origin of its own, which no object has. @make: make it if there is none
// yet.
static uint32_t code_of(const struct sosc_origin *wanted, const struct sosc_code_texts *texts,
			bool make)
{
	uint32_t hash = hash_of_copy(wanted->first_line, texts);
	uint32_t at = hash >> buckets->shift, number;
	struct sosc_origin code = *wanted;

	for (; (number = buckets->numbers[at]); at = (at + 1) & buckets->mask) {
		const struct sosc_origin *origin = &sosc_origins[number];

		if (origin->instr == WHOLE_CODE &&
		    is_copy((const void *)origin->copy, code.first_line, texts))
			return number;
	}
	code.instr = WHOLE_CODE;
	code.size = 0;
	return make ? add(&code, hash, make_copy(code.first_line, texts)) : ORIGIN_UNKNOWN;
}

// If the thread that holds the lock has left by siglongjmp, the lock is never released. A thread
// that has waited once in vain marks the lock, so that others do not wait for each code object of
// the program.
static bool lock(void)
{
	uint32_t *word = &sosc_origin_locks[ORIGIN_LOCK_MAKE];

	for (int tries = 0; tries < 1 << 16; tries++) {
		uint32_t was = 0;

		if (__atomic_compare_exchange_n(word, &was, 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
		if (was == GIVEN_UP)
			return false;
	}
	(void)__atomic_compare_exchange_n(word, &(uint32_t){1}, GIVEN_UP, false, __ATOMIC_RELAXED,
					  __ATOMIC_RELAXED);
	return false;
}

static void unlock(void)
{
	__atomic_store_n(&sosc_origin_locks[ORIGIN_LOCK_MAKE], 0, __ATOMIC_RELEASE);
}

/**
 * Return the number of the origin that has the copy of @wanted's code, for any instruction. Return
 * ORIGIN_UNKNOWN in the cases of sosc_origin_make, and if there is none and none is to be made
 * (@make).
 */
uint32_t sosc_origin_code(const struct sosc_origin *wanted, const struct sosc_code_texts *texts,
			  bool make)
{
	uint32_t number;

	if (!lock())
		return ORIGIN_UNKNOWN;
	number = code_of(wanted, texts, make && sosc_objects_tally.origin_count < ORIGINS_MAX);
	unlock();
	return number;
}

/**
 * Make a number for an origin that was not found in this @epoch. Return ORIGIN_UNKNOWN if that is
 * not possible. Interpreters with separate locks may come here at the same time: the second one
 * gives up.
 */
uint32_t sosc_origin_make(const struct sosc_origin *wanted, const struct sosc_code_texts *texts,
			  uint32_t epoch)
{
	uint32_t number, code;

	if (!lock())
		return ORIGIN_UNKNOWN;
	number = compare(wanted, texts);
	// room for the copy's origin and for this one
	if (!number && sosc_objects_tally.origin_count <= ORIGINS_MAX - 2) {
		code = code_of(wanted, texts, true);
		number = add(wanted, hash_of(wanted), code ? sosc_origins[code].copy : 0);
	}
	__atomic_store_n(&epochs[number], epoch, __ATOMIC_RELAXED);
	unlock();
	return number;
}

/** Return the origin of objects that are made while no code runs. @size: see struct sosc_origin. */
uint32_t sosc_origin_nowhere(uint32_t size)
{
	struct sosc_code_texts none = {{NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
	struct sosc_origin wanted = {.size = size};
	uint32_t number = size ? sosc_origin_find(&wanted, ORIGIN_ALWAYS) : ORIGIN_NOWHERE;

	return number ? number : sosc_origin_make(&wanted, &none, ORIGIN_ALWAYS);
}
