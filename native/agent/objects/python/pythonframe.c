// SPDX-License-Identifier: Apache-2.0
// The line of Python code that makes an object, read from the interpreter's own frame (cpython.h).

#include "objects/python/python.h"
#include "objects/python/pythonrecent.h"
#include "vm/origin.h"

enum {
	SHIMS_MAX = 8,
	TYPE = 8, // ob_type
};

static inline uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static uint64_t frame_of(const struct sosc_python *at)
{
	uint64_t frame = (uint64_t)sosc_python.thread_state();

	if (frame)
		frame = sosc_python_newest(at, frame);
	for (int i = 0; frame && sosc_python_is_shim(at, frame); i++)
		frame = i < SHIMS_MAX ? word_at(frame + at->frame_previous) : 0;
	return frame;
}

static uint32_t make(const struct sosc_python *at, const struct sosc_origin *origin, uint32_t epoch)
{
	struct sosc_code_texts texts = sosc_python_texts(at, origin);

	return sosc_origin_make(origin, &texts, epoch);
}

// @place->what is the epoch. If @place is NULL, the agent is not told of new code objects.
static uint32_t look_up(const struct sosc_python *at, uint64_t code, uint64_t instr, uint32_t size,
			const struct sosc_recent *place)
{
	struct sosc_origin origin = sosc_python_code(at, code);
	uint32_t epoch = place ? (uint32_t)place->what : 0, number;

	origin.instr = sosc_python_instr_of(at, instr, code);
	origin.size = size;
	number = place ? sosc_origin_find(&origin, epoch) : 0;
	return number ? number : make(at, &origin, epoch);
}

/** Return whether the thread that holds the GIL is running any Python code. */
bool sosc_python_runs(void)
{
	return frame_of(&sosc_python_layout) != 0;
}

/**
 * Return the number of the origin for an object that the thread that holds the GIL is making.
 * @size: see struct sosc_origin. @place: entry to fill for the next object of this kind, or NULL if
 * there can be none.
 */
uint32_t sosc_python_origin(uint32_t size, struct sosc_recent *place)
{
	const struct sosc_python *at = &sosc_python_layout;
	uint64_t frame, code, instr;

	if (sosc_objects_types)
		return ORIGIN_NOWHERE;
	frame = frame_of(at);
	if (!frame)
		return sosc_origin_nowhere(size);
	code = word_at(frame + at->frame_code) & ~(uint64_t)at->frame_tag;
	if (!code || word_at(code + TYPE) != (uint64_t)sosc_python.PyCode_Type)
		return sosc_origin_nowhere(size);
	instr = word_at(frame + at->frame_instr);
	if (at->instr_kind != SOSC_INSTR_POINTER)
		instr = (uint32_t)instr;
	if (place) {
		place->where = sosc_recent_join(code, instr, sosc_recent_ways.has_pointers);
		place->file_at = code + at->code_file;
		place->file = word_at(place->file_at);
	}
	return look_up(at, code, instr, size, place);
}
