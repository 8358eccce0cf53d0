// SPDX-License-Identifier: Apache-2.0
// parked SEED: calls and returns on a stack that is known here, in any order that programs
// have: nested, left by longjmp, tail-called, of two stacks. What is alive must be found, as
// long as there was a place for it; what is found must be what was put there.
#include "host.h"

#include "call/cell.h"
#include "thread/park.h"
#include "thread/thread.h"

enum { STEPS = 400000, DEPTH = 6000, RECURSION = 5000 };

struct frame {
	uint64_t sp, cell, stamp;
	bool has_place;
	bool shared; // entered at the address of the frame below: a tail call
};

static struct frame frames[DEPTH + 1];
static uint32_t depth;
static uint64_t stamp, found_count, missing;

static void enter(struct sosc_thread *thread, uint64_t *seed, bool tail)
{
	struct frame *top = depth ? &frames[depth - 1] : NULL;
	struct frame *fresh = &frames[depth];
	struct sosc_parked *place;

	tail = tail && top;
	fresh->sp = tail ? top->sp :
			   (top ? top->sp : 0x7ffff0000000) - 16 - host_random(seed) % 12 * 16;
	fresh->cell = (uint64_t)&sosc_cells[host_random(seed) % 8];
	fresh->stamp = ++stamp;
	fresh->shared = tail;
	place = sosc_parked_place(thread, fresh->sp, (void *)fresh->cell, tail);
	fresh->has_place = place;
	missing += !place;
	if (place) {
		CHECK(place >= thread->parked &&
		      place < thread->parked + PARKED_COUNT + PARKED_PROBES);
		CHECK(!place->sp);
		*place = (struct sosc_parked){fresh->sp, fresh->cell, fresh->stamp, 0};
	}
	frames[++depth].shared = false;
}

static void leave(struct sosc_thread *thread)
{
	struct frame *top = &frames[--depth];
	struct sosc_parked *place = sosc_parked_find(thread, top->sp, top->cell);

	if (!top->has_place)
		return;
	CHECK(place);
	CHECK(place->sp == top->sp && place->cell == top->cell && place->a == top->stamp);
	place->sp = 0;
	found_count++;
}

static void jump(uint64_t *seed)
{
	uint32_t left = depth ? (uint32_t)(host_random(seed) % (depth < 50 ? depth : 50)) : 0;

	for (; depth && (left || frames[depth].shared); left -= left > 0)
		depth--; // with a frame goes all that has been tail-called in it
}

// A recursion of small frames, wherever its stack lies: all of it has places.
static void recursion(struct sosc_thread *thread, uint64_t *seed)
{
	uint64_t top = 0x7f0000000000 + host_random(seed) % (1 << 20) * 16;
	uint64_t step = 16 + host_random(seed) % 3 * 16;

	for (uint64_t i = 0; i < RECURSION; i++) {
		struct sosc_cell *cell = &sosc_cells[i & 1];
		struct sosc_parked *place = sosc_parked_place(thread, top - i * step, cell, false);

		CHECK(place && !place->sp);
		*place = (struct sosc_parked){top - i * step, (uint64_t)cell, i, 0};
	}
	for (uint64_t i = RECURSION; i-- > 0;) {
		uint64_t cell = (uint64_t)&sosc_cells[i & 1];
		struct sosc_parked *place = sosc_parked_find(thread, top - i * step, cell);

		CHECK(place && place->a == i);
		place->sp = 0;
	}
}

// A call that another session interrupts while it is parked: the table is wiped meanwhile.
static void interrupted(struct sosc_thread *thread)
{
	struct sosc_cell *cell = &sosc_cells[1];
	uint64_t sp = 0x7ffff0000000;
	struct sosc_parked *place = sosc_parked_place(thread, sp, cell, false);

	CHECK(place && !place->sp);
	place->cell = (uint64_t)cell;
	sosc_threads_again(0);
	place->sp = sp;
	CHECK(!place->cell);
	CHECK(sosc_parked_place(thread, sp, cell, false) == place);
	CHECK(!place->sp);
}

int main(int argc, char **argv)
{
	uint64_t seed = strtoull(argv[1], NULL, 0);
	struct sosc_thread *thread;

	CHECK(argc == 2);
	host_control(SOSC_INSTRUMENT_STATS, 1);
	thread = sosc_thread_self();
	CHECK(thread && thread->parked && thread == sosc_thread_self());
	for (uint32_t step = 0; step < STEPS; step++) {
		uint64_t choice = host_random(&seed) % 1000;
		bool sinking = step / 20000 % 2 == 0;
		uint32_t tails = 0;

		for (uint32_t i = depth; i && frames[i - 1].shared; i--)
			tails++;
		if (choice < (sinking ? 520u : 400u) && depth < DEPTH)
			enter(thread, &seed, choice < 40 && tails < 8);
		else if (choice < 998 && depth)
			leave(thread);
		else // longjmp, or an exception: nobody says anything
			jump(&seed);
	}
	while (depth)
		leave(thread);
	interrupted(thread);
	sosc_threads_again(0);
	for (int i = 0; i < 200; i++)
		recursion(thread, &seed);
	CHECK(missing * 100 < stamp);
	printf("%lu calls, %lu without a place\n", stamp, missing);
	return 0;
}
