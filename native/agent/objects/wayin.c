// SPDX-License-Identifier: Apache-2.0
// An instrument that needs calls only to find its way in: it waits at calls that an interpreter makes
// until that can be asked for what it makes and frees.

#include "base/arch.h"
#include "base/instrument.h"
#include "base/memory.h"
#include "call/cell.h"
#include "call/handler.h"
#include "hook/slot.h"
#include "image/image.h"
#include "objects/common/objects.h"
#include "objects/python/python.h"
#include "objects/python/pythonrecent.h"
#include "objects/ruby/ruby.h"
#include "ring/record.h"
#include "thread/thread.h"

static bool is_exec(const char *symbol)
{
	if (symbol[0] == 'f')
		symbol++;
	return symbol[0] == 'e' && symbol[1] == 'x' && symbol[2] == 'e' && symbol[3] == 'c';
}

// Where Ruby makes such a call, it may not have begun with what we need of it.
static bool is_of_memory(const char *symbol)
{
	return symbol[0] == 'm' || symbol[0] == 'c'; // malloc, calloc, mmap
}

static bool is_way_in(const struct sosc_candidate *at)
{
	if (sosc_python_is_in(at->image))
		return true;
	return !is_of_memory(at->symbol) && sosc_ruby_is_in(at->image);
}

static uint64_t hooked(const struct sosc_candidate *at, uint32_t cell)
{
	(void)cell;
	if (is_exec(at->symbol) || is_way_in(at))
		return (uint64_t)sosc_h_layer;
	return (uint64_t)sosc_h_jump;
}

static const char *name_of(const struct sosc_call *call)
{
	return sosc_string_at(sosc_slot(call->cell)->symbol);
}

static enum sosc_next entry(struct sosc_call *call)
{
	const struct sosc_loaded *image;

	// a vfork child is in its parent's place: the objects stay its parent's
	if (sosc_is_sealed(call->thread) || !sosc_objects_are_ours())
		return SOSC_GO_ON;
	if (is_exec(name_of(call))) {
		(void)sosc_objects_ask(SOSC_OBJECTS_AT_EXEC);
		return SOSC_GO_ON;
	}
	image = sosc_image_of(call->layer->addr);
	if (sosc_objects_place()->state == SOSC_OBJECTS_WAITING && image) {
		if (sosc_python_is_in(image))
			sosc_python_try(image);
		else
			sosc_ruby_try(image);
	}
	if (sosc_objects_place()->state != SOSC_OBJECTS_WAITING)
		__atomic_store_n(&sosc_cells[call->cell].handler, (uint64_t)sosc_h_jump,
				 __ATOMIC_RELEASE);
	return SOSC_GO_ON;
}

/**
 * Have the interpreter carry out an order. Called by soscope in the place of one thread, while the
 * others go on. Return: 1, or 0 where there is no interpreter.
 */
__attribute__((visibility("default"))) long
soscope_agent_objects(const struct sosc_objects_call *call)
{
	return sosc_objects_place() && (sosc_python_order(call) || sosc_ruby_order(call));
}

void sosc_instrument_objects(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_IDS;
	instrument->hooked = hooked;
	instrument->entry = entry;
	instrument->start = sosc_objects_start;
	instrument->forked = sosc_objects_forked;
	instrument->quiet = sosc_objects_quiet;
	instrument->closed = sosc_python_closed;
}

/**
 * The agent rests: give back what is known of objects. That stays if the program itself has been told
 * numbers that lead there.
 */
void sosc_objects_rest(void)
{
	if (sosc_objects_told)
		return;
	sosc_side_rest();
	sosc_origins_rest();
	sosc_memory_clear(sosc_recent, sizeof(sosc_recent));
	sosc_ruby_origins_rest();
	sosc_ruby_types_rest();
}
