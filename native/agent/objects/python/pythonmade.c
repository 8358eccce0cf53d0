// SPDX-License-Identifier: Apache-2.0
// Counts all objects that CPython has made since the program asked for that, by origin and type,
// whether they are alive or not. All of this happens with the interpreter's lock held. The rows
// hold a reference to their types, so that no other type can get the same address.

#include "base/sys.h"
#include "objects/python/python.h"
#include "objects/python/pythonrecent.h"

enum {
	ROWS = 1 << 17,
	PLACES = ROWS * 2, // a power of two
};

static struct sosc_program_row *rows, *recent;
static uint32_t *places; // hash table of row numbers + 1
static uint32_t row_count;
static uint64_t lost;

static void *map(uint64_t size)
{
	void *made = sosc_mmap(NULL, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sosc_mmap_failed(made) ? NULL : made;
}

/** Begin with empty rows. Return whether there is memory for them. */
bool sosc_python_made_begin(void)
{
	if (!rows)
		rows = map(sizeof(*rows) * ROWS);
	if (!places)
		places = map(sizeof(*places) * PLACES);
	lost = 0;
	sosc_recent_forget(); // the fast path does not count these objects
	return rows && places;
}

/** The types have ended together with their interpreter. */
void sosc_python_made_forget(void)
{
	if (row_count)
		memset(places, 0, sizeof(*places) * PLACES);
	recent = NULL;
	row_count = 0;
}

/** The program does not ask any more: release the types. */
void sosc_python_made_end(void)
{
	uint32_t count = row_count;

	sosc_python_made_forget();
	for (uint32_t i = 0; i < count; i++)
		sosc_python.Py_DecRef((void *)rows[i].type);
}

static struct sosc_program_row *row_of(uint64_t type, uint32_t origin)
{
	uint64_t hash = ((type >> 4) ^ (uint64_t)origin << 40) * 0x9e3779b97f4a7c15 >> 40;
	struct sosc_program_row *row;

	for (; places[hash & (PLACES - 1)]; hash++) {
		row = &rows[places[hash & (PLACES - 1)] - 1];
		if (row->type == type && row->origin == origin)
			return row;
	}
	if (row_count == ROWS)
		return NULL;
	sosc_python.Py_IncRef((void *)type);
	row = &rows[row_count++];
	row->type = type;
	row->origin = origin;
	row->count = 0;
	places[hash & (PLACES - 1)] = row_count;
	return row;
}

/** An object of @type was made. */
void sosc_python_made(uint64_t type, uint32_t origin)
{
	if (!recent || recent->type != type || recent->origin != origin)
		recent = row_of(type, origin);
	if (recent)
		recent->count++;
	else
		lost++;
}

/** Give the rows to the program. */
void sosc_python_made_look(struct sosc_program *program)
{
	program->rows = (uint64_t)rows;
	program->row_count = row_count;
	program->lost = lost;
	program->origins = sosc_objects_tally.origins;
	program->origin_count = sosc_objects_tally.origin_count;
}
