// SPDX-License-Identifier: Apache-2.0
// Reads the objects of CPython from inside the process, for the program itself: makes rows of all
// live objects that were made since the program began to count. The interpreter's lock is held all
// the time.

#include "base/memory.h"
#include "base/sys.h"
#include "objects/python/python.h"
#include "vm/origin.h"

enum {
	TYPE = 8, // ob_type
	TYPE_SIZE = 336, // bytes that are read of a type, in all versions
	ROWS_FIRST = 1 << 12, // powers of two
	ROWS_MAX = 1 << 20,
	ROWS_TRIED = 256,
	TYPES_BITS = 8,
	// from this version on, an object on a free list has a pointer to the next one in place of
	// its reference count
	MINOR_WITH_CHAIN = 13,
	CHAINED = 1 << 20,
};

#define TYPE_SUBCLASS (1ull << 31) // Py_TPFLAGS_TYPE_SUBCLASS

static struct sosc_program_row *rows;
static uint32_t row_room, row_count;
static uint32_t thread;

static uint64_t types[1 << TYPES_BITS]; // addresses that are known to be types

// The page that was read last. Pages are read by a system call, as an extension may have unmapped
// the memory of an object whose end was not announced.
static struct {
	uint64_t at, size;
	uint8_t bytes[SOSC_PAGE];
} page;

static bool read_head(uint64_t object, uint64_t head[2])
{
	uint64_t at = object & ~(uint64_t)(SOSC_PAGE - 1);

	if (page.at != at) {
		page.at = at;
		page.size = sosc_read(thread, page.bytes, at, SOSC_PAGE);
	}
	if (object - at + 2 * sizeof(*head) > page.size)
		return false;
	memcpy(head, &page.bytes[object - at], 2 * sizeof(*head));
	return true;
}

static bool counts(uint64_t count, uint32_t word)
{
	bool is_dying = word & SOSC_SIDE_DYING && sosc_python_layout.minor >= MINOR_WITH_CHAIN;

	return (uint32_t)count && !(is_dying && count >= CHAINED);
}

/**
 * Call before objects are read: this thread is the one whose memory is read, since some addresses
 * may be unmapped.
 */
void sosc_python_look_anew(void)
{
	thread = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
	page.at = page.size = 0;
	memset(types, 0, sizeof(types));
}

/**
 * Return whether the object whose block has the word @word is alive. @head becomes its reference
 * count and its type.
 */
bool sosc_python_is_alive(uint64_t object, uint32_t word, uint64_t head[2])
{
	return read_head(object, head) && counts(head[0], word);
}

/** Return the address of the object in a block. */
uint64_t sosc_python_object(uint64_t block, uint32_t word)
{
	return block + (word >> SOSC_SIDE_SHIFT & 3) * SOSC_PYTHON_HEAD;
}

static bool read_type(uint64_t addr)
{
	uint64_t words[TYPE_SIZE / sizeof(uint64_t)], flags;

	return sosc_read(thread, words, addr, TYPE_SIZE) == TYPE_SIZE &&
	       sosc_read(thread, &flags,
			 words[TYPE / sizeof(uint64_t)] + sosc_python_layout.type_flags,
			 sizeof(flags)) == sizeof(flags) &&
	       flags & TYPE_SUBCLASS;
}

/** Return whether there is a type at @addr. Types are not freed during a look. */
bool sosc_python_is_type(uint64_t addr)
{
	uint64_t *last = &types[(addr >> 4) * 0x9e3779b97f4a7c15 >> (64 - TYPES_BITS)];

	if (!addr || (*last != addr && !read_type(addr)))
		return false;
	*last = addr;
	return true;
}

static struct sosc_program_row *row_of(uint64_t type, uint32_t origin)
{
	uint64_t hash = ((type >> 4) ^ (uint64_t)origin << 40) * 0x9e3779b97f4a7c15;

	for (uint32_t i = 0; i < ROWS_TRIED; i++) {
		struct sosc_program_row *row = &rows[((hash >> 40) + i) & (row_room - 1)];

		if (!row->count) {
			row->type = type;
			row->origin = origin;
			row_count++;
			return row;
		}
		if (row->type == type && row->origin == origin)
			return row;
	}
	return NULL;
}

static bool is_crowded(void)
{
	return row_count > row_room / 2 && row_room < ROWS_MAX;
}

static bool is_left_out(uint64_t object, const struct sosc_program *program)
{
	const uint64_t *each = (const uint64_t *)program->left_out;

	while (each && *each && *each != object)
		each++;
	return each && *each;
}

static void add(uint64_t block, uint32_t *word, void *data)
{
	struct sosc_program *program = data;
	uint64_t object = sosc_python_object(block, *word), head[2];
	uint32_t origin = *word & SOSC_SIDE_ORIGIN;
	struct sosc_program_row *row;

	if (is_crowded() || !(*word & SOSC_SIDE_SINCE) || is_left_out(object, program) ||
	    !sosc_python_is_alive(object, *word, head))
		return;
	row = origin == ORIGIN_UNKNOWN ? NULL : row_of(head[1], origin);
	if (row)
		row->count++;
	else
		program->lost++;
}

// Moves the rows that are in use to the start of the array. Each of their types gets a reference,
// so that it lives until the program has read its name.
static uint32_t gather(void)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < row_room; i++) {
		if (!rows[i].count)
			continue;
		if (sosc_python_is_type(rows[i].type))
			sosc_python.Py_IncRef((void *)rows[i].type);
		else
			rows[i].type = 0;
		rows[used++] = rows[i];
	}
	return used;
}

static void walk(struct sosc_program *program)
{
	memset(rows, 0, sizeof(*rows) * row_room);
	row_count = 0;
	program->lost = 0;
	sosc_side_each(add, program);
}

/** Make rows of all objects that are alive. */
void sosc_python_look(struct sosc_program *program)
{
	if (!rows) {
		void *made = sosc_mmap(NULL, sizeof(*rows) * ROWS_MAX, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (sosc_mmap_failed(made)) {
			sosc_objects_refuse(SOSC_OBJECTS_NO_MEMORY, NULL);
			return;
		}
		rows = made;
		row_room = ROWS_FIRST;
	}
	sosc_python_look_anew();
	for (walk(program); is_crowded(); walk(program))
		row_room *= 4;
	program->rows = (uint64_t)rows;
	program->row_count = gather();
	program->origins = sosc_objects_tally.origins;
	program->origin_count = sosc_objects_tally.origin_count;
}
