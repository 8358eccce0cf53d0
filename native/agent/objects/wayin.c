// SPDX-License-Identifier: Apache-2.0
// This instrument uses calls only to get into an interpreter. It waits at the interpreter's calls
// until the interpreter can be asked to report the objects that it makes and frees.

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

// When Ruby makes such a call, the parts of Ruby that are needed may not be initialized yet.
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

	// a vfork child runs in its parent's memory, and the objects stay its parent's
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
 * Let the interpreter carry out an order. soscope calls this in a borrowed thread while the other
 * threads go on. Return 1, or 0 if there is no interpreter.
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
 * The agent rests: unmap what is known about objects. It stays if the program itself has been given
 * numbers that refer to it.
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
