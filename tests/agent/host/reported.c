// SPDX-License-Identifier: Apache-2.0
// Calls that code reports, on stacks that are only numbers: who is inside whom, when they return,
// when they do not, when there is no room.
#include "host.h"

#include "prof/prof.h"
#include "prof/times.h"
#include "image/image.h"
#include "base/instrument.h"

#undef memset
#include <string.h>
#include <sys/mman.h>

enum { STACK = 0x1000000, OTHER = 0x40000000 };

static struct sosc_prof *own;

static uint64_t function(uint32_t number)
{
	return 0x500000 + number * 0x100ull;
}

// A call of function @number, with its frame at @sp; its hook returns a little behind its start.
static void enter(uint32_t number, uint64_t from, uint64_t sp)
{
	sosc_prof_enter(function(number), from, function(number) + 20, sp);
}

static void leave(uint32_t number, uint64_t from, uint64_t sp)
{
	sosc_prof_exit(function(number), from, sp, 0);
}

static struct sosc_prof_table *table(void)
{
	struct sosc_prof_thread *thread = sosc_prof_thread_slow();

	CHECK(thread && thread->table != sosc_prof_shared);
	return thread->table;
}

static uint64_t open_calls(void)
{
	return (uint64_t)(sosc_prof_thread_slow()->next - sosc_prof_frames(table()));
}

// The one node of a function under another's one node, or under nobody.
static const struct sosc_prof_node *node(uint32_t number, uint32_t parent)
{
	struct sosc_prof_node *nodes = sosc_prof_nodes(table());
	const struct sosc_prof_node *found = NULL;

	for (uint32_t i = 1; i < SOSC_PROF_NODES; i++) {
		const struct sosc_prof_node *each = &nodes[i];
		bool inside = each->key & SOSC_PROF_INSIDE;

		if (each->function != function(number) || each->flags & SOSC_PROF_NODE_ALIAS)
			continue;
		if (parent ? !inside || sosc_prof_node_at(table(), each->key)->function !=
						function(parent) :
			     inside)
			continue;
		CHECK(!found);
		found = each;
	}
	return found;
}

static void check_nesting(void)
{
	for (int i = 0; i < 3; i++) {
		enter(1, 0x400001, STACK);
		enter(2, 0x500130, STACK - 64);
		leave(2, 0x500130, STACK - 64);
		leave(1, 0x400001, STACK - 32); // it has taken room meanwhile
	}
	CHECK(!open_calls() && node(1, 0)->calls == 3 && node(2, 1)->calls == 3);
	CHECK(node(1, 0)->timed == 3 && node(2, 1)->timed == 3 && !table()->left);
	CHECK(node(1, 0)->total == node(1, 0)->self + node(2, 1)->total);
	leave(2, 0x500130, STACK - 64);
	CHECK(table()->unpaired == 1);
}

// 4 is left by a longjmp to 3, which goes on to call 5; then by one out of 3, at the same address.
static void check_jumps(void)
{
	for (int i = 0; i < 2; i++) {
		enter(3, 0x400003, STACK);
		enter(4, 0x500330, STACK - 64);
		enter(4, 0x500430, STACK - 128);
		enter(5, 0x500340, STACK - 64);
		leave(5, 0x500340, STACK - 64);
	}
	CHECK(node(3, 0)->calls == 2 && node(4, 3)->calls == 2 && node(5, 3)->calls == 2);
	CHECK(!node(5, 4) && !node(3, 3) && table()->left == 5);
	leave(3, 0x400003, STACK);
	CHECK(!open_calls() && table()->left == 5);
}

// 7 is put into 6 by the compiler: the same address, the same caller, another hook.
static void check_inlined(void)
{
	enter(6, 0x400006, STACK - 16); // with an argument on its way
	enter(7, 0x400006, STACK);
	leave(7, 0x400006, STACK);
	sosc_prof_enter(function(7), 0x400006, function(6) + 90, STACK - 16);
	sosc_prof_exit(function(7), 0x400006, STACK - 16, 0);
	leave(6, 0x400006, STACK - 16);
	CHECK(node(7, 6)->calls == 2 && !node(7, 0) && !open_calls());
}

// 8 and 9 run by turns, on stacks of their own, and return in the order in which they began.
static void check_coroutines(void)
{
	uint64_t left = table()->left;

	enter(8, 0x400008, STACK);
	enter(9, 0x400009, OTHER);
	enter(10, 0x500830, STACK - 64);
	enter(10, 0x500930, OTHER - 64);
	leave(10, 0x500830, STACK - 64);
	leave(8, 0x400008, STACK);
	leave(10, 0x500930, OTHER - 64);
	leave(9, 0x400009, OTHER);
	enter(9, 0x400009, OTHER);
	enter(8, 0x400008, STACK);
	leave(9, 0x400009, OTHER); // the stack of 8 lies far below, and 8 goes on
	leave(8, 0x400008, STACK);
	CHECK(node(10, 8)->calls == 1 && node(10, 9)->calls == 1 && !node(9, 8));
	CHECK(!open_calls() && table()->left == left);
}

// 14 switches to 15, on a stack far below, and is left by a longjmp to its caller, which calls 16: whether 14 is
// over cannot be told, and 15 goes on.
static void check_left_behind(void)
{
	const uint64_t left = table()->left, unpaired = table()->unpaired, below = STACK / 4;

	enter(14, 0x400014, STACK - 256);
	enter(15, 0x400015, below);
	enter(16, 0x400016, STACK - 128);
	CHECK(open_calls() == 3 && table()->left == left);
	leave(16, 0x400016, STACK - 128);
	leave(15, 0x400015, below);
	CHECK(table()->unpaired == unpaired && node(15, 0)->timed == 1);
	leave(14, 0x400014, STACK - 256);
	CHECK(!open_calls() && node(16, 0)->calls == 1);
}

static void check_depth(void)
{
	const uint64_t deep = SOSC_PROF_FRAMES + 100;
	uint64_t calls = 0;
	uint32_t before = table()->nodes;

	for (uint64_t i = 0; i < deep; i++)
		enter(11, 0x500b30, STACK - 64 * i);
	CHECK(table()->deep == deep - (SOSC_PROF_FRAMES - 2) && table()->nodes - before < 100);
	for (uint64_t i = deep; i-- > 0;)
		leave(11, 0x500b30, STACK - 64 * i);
	for (uint32_t i = 1; i < SOSC_PROF_NODES; i++)
		if (sosc_prof_nodes(table())[i].function == function(11))
			calls += sosc_prof_nodes(table())[i].calls;
	CHECK(calls == deep && !open_calls());
}

static uint64_t all_calls(void)
{
	uint64_t calls = 0;

	for (uint32_t i = 0; i < SOSC_PROF_NODES; i++)
		calls += sosc_prof_nodes(table())[i].calls;
	return calls;
}

// What finds no room is counted in node 0, and nothing else is added to anybody's.
static void check_room(void)
{
	uint64_t before = all_calls();
	const uint32_t many = 40000;

	for (uint32_t i = 0; i < many; i++) {
		enter(100 + i, 0x400000, STACK);
		enter(12, 0x400000, STACK - 64);
		leave(12, 0x400000, STACK - 64);
		leave(100 + i, 0x400000, STACK);
	}
	CHECK(table()->nodes <= SOSC_PROF_ROOM && !open_calls());
	CHECK(sosc_prof_nodes(table())[0].calls > many / 2 && all_calls() == before + 2ull * many);
	for (uint32_t i = 1; i < SOSC_PROF_NODES; i++)
		CHECK(sosc_prof_nodes(table())[i].function < function(100) ||
		      sosc_prof_nodes(table())[i].calls == 1);
}

// An image is closed, and another one comes to its place.
static void check_closed(void)
{
	const struct sosc_loaded image = {.start = function(60), .end = function(61), .index = 6};
	const uint64_t number = 7ull << SOSC_IMAGE_SHIFT;
	uint64_t first = function(60), seen = 0, from = 0;

	for (int round = 0; round < 2; round++) {
		enter(60, 0x400060, STACK); // by an image that stays
		enter(61, first + 4, STACK - 64);
		leave(61, first + 4, STACK - 64);
		leave(60, 0x400060, STACK);
		enter(62, first + 8, STACK); // by the one that goes, which has not reported itself
		leave(62, first + 8, STACK);
		if (!round)
			sosc_prof_closed(&image);
	}
	CHECK(node(60, 0)->calls == 1 && node(61, 60)->calls == 1);
	for (uint32_t i = 1; i < SOSC_PROF_NODES; i++) {
		const struct sosc_prof_node *each = &sosc_prof_nodes(table())[i];

		seen += each->function == (first | number) && each->key == 0x400060 &&
			each->calls == 1 && each->site == ((first + 20) | number);
		from += each->function == function(61) && each->from == ((first + 4) | number);
		from += each->function == function(62) && each->key == ((first + 8) | number);
		from += each->function == function(62) && each->key == first + 8;
	}
	CHECK(seen == 1 && from == 3);
}

int main(void)
{
	const uint64_t size = 4096 + 3ull * SOSC_PROF_TABLE_SIZE;

	(void)host_control(SOSC_INSTRUMENT_PROF, 0);
	own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	CHECK(own != MAP_FAILED);
	own->mode = SOSC_PROF_TIME;
	own->tables = 3;
	own->period = 1;
	own->used = 1;
	own->first_table = 4096;
	sosc_prof_given = sosc_prof = own;
	CHECK(sosc_prof_tables_start());
	check_nesting();
	check_jumps();
	check_inlined();
	check_coroutines();
	check_left_behind();
	check_depth();
	check_closed();
	check_room();
	return 0;
}
