// SPDX-License-Identifier: Apache-2.0
// Which line of Python makes an object: read from the interpreter's own frame, by a table of where
// its version keeps things (soscope/objects.h).

#include "objects/common/origin.h"
#include "objects/python/python.h"
#include "objects/python/pythonrecent.h"

enum {
	SHIMS_MAX = 8,
	TYPE = 8, // ob_type
	SIZE = 16, // ob_size of a bytes object
	STATE_SHIFT = 2, // bits of a str's state that are not about its characters,
	STATE_LATER = 14, // and more of them in some builds
	STATE_KIND = 7,
	STATE_COMPACT = 1 << 3,
	STATE_ASCII = 1 << 4,
};

static inline uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static int32_t instr_of(const struct sosc_python *at, uint64_t instr, uint64_t code)
{
	switch (at->instr_kind) {
	case SOSC_INSTR_POINTER:
		return (int32_t)(instr - code - at->code_bytes);
	case SOSC_INSTR_UNITS:
		return (int32_t)instr * 2;
	default:
		return (int32_t)instr;
	}
}

/** The newest frame of a thread that holds the GIL, which may be a shim; 0: it has none. */
uint64_t sosc_python_newest(const struct sosc_python *at, uint64_t thread_state)
{
	uint64_t frame = word_at(thread_state + at->state_frame);

	return frame && at->inner_frame != SOSC_NONE ? word_at(frame + at->inner_frame) : frame;
}

/** Whether a frame has no code. */
bool sosc_python_is_shim(const struct sosc_python *at, uint64_t frame)
{
	return at->frame_owner != SOSC_NONE &&
	       *(const uint8_t *)(frame + at->frame_owner) >= at->shim;
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

/** How far in its code a frame is, bytes from the first instruction; below 0: in front of it. */
int32_t sosc_python_instr(const struct sosc_python *at, uint64_t frame, uint64_t code)
{
	uint64_t instr = word_at(frame + at->frame_instr);

	return instr_of(at, at->instr_kind == SOSC_INSTR_POINTER ? instr : (uint32_t)instr, code);
}

/** What tells a code object from a later one at its address. */
struct sosc_origin sosc_python_code(const struct sosc_python *at, uint64_t code)
{
	return (struct sosc_origin){
		.code = code,
		.file = word_at(code + at->code_file),
		.name = word_at(code + at->code_name),
		.lines = word_at(code + at->code_lines),
		.first_line = *(const uint32_t *)(code + at->code_first_line),
	};
}

static struct sosc_text text_of(const struct sosc_python *at, uint64_t object)
{
	uint32_t state = *(const uint32_t *)(object + at->text_state) >> STATE_SHIFT;
	uint32_t width;
	uint64_t length = word_at(object + at->text_length);

	if (!(state & STATE_KIND)) // never 0: an early 3.14
		state >>= STATE_LATER;
	width = state & STATE_KIND;

	if (!(state & STATE_COMPACT) || !width || length > 1 << 20)
		return (struct sosc_text){NULL, 0, 1};
	return (struct sosc_text){
		(const void *)(object + (state & STATE_ASCII ? at->text_ascii : at->text_compact)),
		(uint32_t)length * width,
		width,
	};
}

/** What is copied of a code object. */
struct sosc_code_texts sosc_python_texts(const struct sosc_python *at,
					 const struct sosc_origin *code)
{
	return (struct sosc_code_texts){
		text_of(at, code->file),
		text_of(at, code->name),
		{(const void *)(code->lines + at->bytes_data),
		 (uint32_t)word_at(code->lines + SIZE), 1},
	};
}

static uint32_t make(const struct sosc_python *at, const struct sosc_origin *origin, uint32_t epoch)
{
	struct sosc_code_texts texts = sosc_python_texts(at, origin);

	return sosc_origin_make(origin, &texts, epoch);
}

// @place: knows the epoch; NULL: nobody is told of code that is made.
static uint32_t look_up(const struct sosc_python *at, uint64_t code, uint64_t instr, uint32_t size,
			const struct sosc_recent *place)
{
	struct sosc_origin origin = sosc_python_code(at, code);
	uint32_t epoch = place ? (uint32_t)place->what : 0, number;

	origin.instr = instr_of(at, instr, code);
	origin.size = size;
	number = place ? sosc_origin_find(&origin, epoch) : 0;
	return number ? number : make(at, &origin, epoch);
}

/** Whether the thread that holds the GIL runs any code of Python. */
bool sosc_python_runs(void)
{
	return frame_of(&sosc_python_layout) != 0;
}

/**
 * Where the thread that holds the GIL makes an object: a number of an origin. @size: see struct
 * sosc_origin. @place: where the same is told of the next one like it, if it can be; or NULL.
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
