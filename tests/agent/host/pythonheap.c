// SPDX-License-Identifier: Apache-2.0
// Looks at the objects of an interpreter of a few types: those that are alive are told, and those
// whose memory is gone, or has become something else, end in no fault and in no walk without an end.
#include "heap.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	OBJECTS = LIST_MOST,
	ORIGIN = 5,
	ROWS = 1 << 20,
	MORE = 1 << 16,
};

// ---- objects -------------------------------------------------------------------

static struct block *blocks; // in pages of their own: nothing behind them can be read
static uint8_t *gone;

static uint32_t *word_of(struct object *object)
{
	uint32_t shift = object->type == &holder ? 1 : 0;
	uint32_t *word = sosc_side_make((uint64_t)object - shift * SOSC_PYTHON_HEAD);

	CHECK(word);
	*word = SOSC_SIDE_USED | SOSC_SIDE_SINCE | shift << SOSC_SIDE_SHIFT | ORIGIN;
	return word;
}

static void make_objects(void)
{
	sosc_side_clear();
	for (int i = 0; i < OBJECTS; i++) {
		blocks[i] = (struct block){.head = {1, 1}, .object = {.count = 1, .type = &holder}};
		(void)word_of(&blocks[i].object);
	}
}

static void make_memory(void)
{
	blocks = host_edge(sizeof(*blocks) * OBJECTS);
	gone = (uint8_t *)(blocks + OBJECTS);
	make_objects();
}

// ---- rows ----------------------------------------------------------------------

static struct sosc_program look(const uint64_t *left_out)
{
	struct sosc_program program = {.left_out = (uint64_t)left_out};

	sosc_python_look(&program);
	return program;
}

static uint64_t count_of(const struct sosc_program *program, const void *type)
{
	const struct sosc_program_row *rows = (const void *)program->rows;
	uint64_t count = 0;

	for (uint32_t i = 0; i < program->row_count; i++)
		if (rows[i].type == (uint64_t)type)
			count += rows[i].count;
	return count;
}

static void check_rows(void)
{
	uint64_t before = holder.count;
	struct sosc_program program = look(NULL);

	CHECK(program.row_count == 1 && !program.lost && holder.count == before + 1);
	CHECK(count_of(&program, &holder) == OBJECTS);
	program = look((uint64_t[]){(uint64_t)&blocks[1].object, (uint64_t)&blocks[2].object, 0});
	CHECK(count_of(&program, &holder) == OBJECTS - 2);
	blocks[0].object.count = 0;
	*word_of(&blocks[1].object) &= ~(uint32_t)SOSC_SIDE_SINCE;
	*word_of(&blocks[2].object) &= ~(uint32_t)SOSC_SIDE_ORIGIN;
	program = look(NULL);
	CHECK(count_of(&program, &holder) == OBJECTS - 3 && program.lost == 1);
	make_objects();
}

// Types that are gone, or are none: their objects are counted, and nobody asks for the types.
static void check_types(void)
{
	struct object none = {1, &plain};
	struct type half = {1, (struct type *)gone};
	const void *const types[] = {gone,	&half,	    &none,
				     (void *)8, (void *)-8, (void *)(1ull << 63)};
	struct sosc_program program;

	for (uint32_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		blocks[i].object.type = (struct type *)types[i];
		program = look(NULL);
		CHECK(count_of(&program, NULL) == i + 1);
		CHECK(count_of(&program, &holder) == OBJECTS - i - 1);
	}
	make_objects();
	*sosc_side_make((uint64_t)gone) = *word_of(&blocks[0].object);
	*sosc_side_make((uint64_t)gone - SOSC_PYTHON_HEAD) = *word_of(&blocks[0].object);
	program = look(NULL);
	CHECK(program.row_count == 1 && count_of(&program, &holder) == OBJECTS);
	make_objects();
}

// More rows than there is room for: the others are counted, and it ends.
static void check_many(void)
{
	struct object *many = mmap(NULL, (ROWS + MORE) * sizeof(uint64_t[2]),
				   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sosc_program program;
	uint64_t count;

	CHECK(many != MAP_FAILED);
	for (uint32_t i = 0; i < ROWS + MORE; i++) {
		struct object *object = (struct object *)((uint64_t *)many + 2 * i);

		object->count = 1;
		object->type = &plain;
		*sosc_side_make((uint64_t)object) = SOSC_SIDE_USED | SOSC_SIDE_SINCE | (i + 2);
	}
	program = look(NULL);
	count = count_of(&program, &plain) + count_of(&program, &holder);
	CHECK(count > ROWS / 2 && program.lost >= MORE);
	CHECK(count + program.lost == ROWS + MORE + OBJECTS);
	CHECK(!munmap(many, (ROWS + MORE) * sizeof(uint64_t[2])));
	make_objects();
}

// ---- the heap ------------------------------------------------------------------

static struct list list = {1, &plain, .at = list.items};
static struct sosc_program_dump dump;

static void *get_objects(void *function, ...)
{
	return function;
}

// In a process of its own, as always: whether it ends, and all is as @is_right says.
static bool heap(uint64_t flags, bool (*is_right)(void))
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		struct sosc_program program = {0};

		dump = (struct sosc_program_dump){
			.keep = (uint64_t)increase,
			.call = (uint64_t)get_objects,
			.get_objects = (uint64_t)&list,
			.flags = flags,
		};
		sosc_python_heap(&program, &dump, true);
		_exit(!is_right());
	}
	CHECK(waitpid(child, &status, 0) == child);
	return !status;
}

static const struct sosc_program_object *find(const void *object)
{
	const struct sosc_program_object *objects = (const void *)dump.objects;

	for (uint64_t i = 0; i < dump.object_count; i++)
		if (objects[i].addr == (uint64_t)object)
			return &objects[i];
	return NULL;
}

static void put(struct object *object)
{
	list.items[list.size++] = object;
	object->count++; // by the list
}

static bool are_all(void)
{
	for (int i = 0; i < OBJECTS; i++)
		if (!find(&blocks[i].object) || find(&blocks[i].object)->origin != ORIGIN)
			return false;
	return find(&holder) && find(&meta) && !dump.lost;
}

static bool are_made(void)
{
	return are_all() || (dump.object_count == OBJECTS && !find(&holder) && !dump.lost);
}

static bool are_without_garbage(void)
{
	return find(&blocks[0].object) && find(&blocks[4].object) && find(&blocks[5].object) &&
	       !find(&blocks[1].object) && !find(&blocks[2].object) && !find(&blocks[3].object);
}

static bool is_without_first(void)
{
	return !find(&blocks[7].object) && find(&blocks[6].object) && !find(gone) && !dump.lost;
}

static void check_heap(void)
{
	const void *const types[] = {gone, gone - 16, &list, (void *)8};
	struct type half = {1, (struct type *)gone};

	list.size = 0;
	put(&blocks[0].object);
	put(&blocks[1].object);
	blocks[0].object.refers[0] = &blocks[4].object;
	blocks[4].object.refers[0] = &blocks[0].object; // without an end
	blocks[0].object.count++;
	CHECK(heap(SOSC_DUMP_ALL, are_all) && heap(0, are_made));
	blocks[1].object.count = 2;
	blocks[1].object.refers[0] = &blocks[2].object; // one ring of garbage
	blocks[2].object.refers[1] = &blocks[3].object;
	blocks[3].object.refers[1] = &blocks[1].object;
	CHECK(heap(SOSC_DUMP_ALL | SOSC_DUMP_REACHABLE, are_without_garbage));
	for (uint32_t i = 0; i <= sizeof(types) / sizeof(*types); i++) {
		struct object *last = &blocks[7].object;

		*sosc_side_make((uint64_t)gone) = *word_of(&blocks[0].object);
		(void)word_of(last);
		last->type = i ? (struct type *)types[i - 1] : &half;
		CHECK(heap(SOSC_DUMP_ALL, is_without_first));
		CHECK(heap(SOSC_DUMP_ALL | SOSC_DUMP_REACHABLE, is_without_first));
		last->type = &holder;
	}
	make_objects();
}

// A block that had no head, at the start of its pages, has become an object that should have one.
static bool is_without_start(void)
{
	return are_all() && dump.object_count == OBJECTS + 2;
}

static void check_start(void)
{
	uint8_t *map = host_edge(2 * SOSC_PAGE);
	struct object *object = (struct object *)(map + SOSC_PAGE);

	CHECK(!mprotect(map, SOSC_PAGE, PROT_NONE));
	*object = (struct object){.count = 1, .type = &plain};
	(void)word_of(object);
	object->type = &holder;
	list.size = 0;
	CHECK(heap(SOSC_DUMP_ALL, is_without_start));
	make_objects();
}

int main(void)
{
	sosc_side_begin();
	CHECK(sosc_origins_init());
	sosc_python_layout = (struct sosc_python){
		.minor = 12,
		.type_flags = offsetof(struct type, flags),
	};
	sosc_python.Py_IncRef = increase;
	make_memory();
	check_rows();
	check_types();
	check_heap();
	check_start();
	check_many();
	return 0;
}
