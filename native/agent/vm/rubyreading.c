// SPDX-License-Identifier: Apache-2.0
// Reads the code of a Ruby frame in a thread that has released the GVL. The frame keeps its code
// alive, and the code keeps its texts and lines alive. But the thread that holds the GVL may move
// any of these objects (GC.compact), and the collector may make their old memory unreadable.
//
// So the kernel copies all parts, and then copies all parts once more. Parts that are the same both
// times existed together at a moment in between. No other living code contains the frame's
// instruction, and a dead object has no kind. The old place of a moved object holds its new
// address.

#include "vm/rubyreading.h"
#include "base/memory.h"

enum {
	OBJECT_SIZE = 40, // bytes of an object that are read
	OBJECT_MOVED_TO = 16,
	STRING_SIZE = 16,
	STRING_DATA = 24, // a pointer to the text, or the text itself
	STRING_SHORT_SIZE = 14, // position in its flags of the size of a short text, and
	STRING_SHORT_MASK = 31,
	ARRAY_SHORT_DATA = 16,
	ARRAY_DATA = 32,
	LIES_ELSEWHERE = 1 << 13, // a flag of a string: its text is stored elsewhere
	LIES_INSIDE = 1 << 13, // a flag of an array: its elements are stored in it
	// flags of any object that the collector uses, and some that are not read here
	FLAGS_OF_COLLECTOR = 0xfe0,
	BODY_PATH = 64,
	BODY_LABEL = 80,
	LINES_SIZE = 32, // bytes of a body's description of its line table
	LINES_COUNT = 16,
	LINES_INDEX = 24,
	// The index of a line table: how many entries begin up to a word of code. It has first 54
	// numbers of 7 bits, nine in a word. Then it has a block for each 512 words of code: the
	// number of entries that begin before it, the numbers up to each of its eight words (9
	// bits, none for the first), and a bit for each word of code at which an entry begins.
	FIRST = 54,
	A_WORD = 9,
	FIRST_BITS = 7,
	BLOCK = 512,
	BLOCK_SIZE = 80,
	BLOCK_RANKS = 8,
	BLOCK_BITS = 16,
	RANK_BITS = 9,
	PARTS = 16,
	TRIES = 3, // attempts, as the collector may be moving objects
	WINDOWS = 2,
	COPY_ROOM = 4096, // bytes of all parts
};

_Static_assert(WINDOWS *RUBY_WINDOW + 2 * COPY_ROOM <= CHAIN_BYTES, "no room for copies");
_Static_assert((uint32_t)PARTS <= (uint32_t)CHAIN_PARTS, "no room for parts");

/** Begin a walk. Nothing else may be kept in @chain meanwhile. */
void sosc_ruby_reading_begin(struct sosc_ruby_reading *reading, const struct sosc_ruby_layout *at,
			     struct sosc_chain *chain, uint32_t tid)
{
	reading->at = at;
	reading->chain = chain;
	reading->tid = tid;
	reading->frames = (struct sosc_window){0, 0, chain->copy, RUBY_WINDOW};
	reading->values = (struct sosc_window){0, 0, chain->copy + RUBY_WINDOW, RUBY_WINDOW};
}

static uint8_t *copies(const struct sosc_ruby_reading *reading)
{
	return reading->chain->copy + WINDOWS * RUBY_WINDOW;
}

static uint8_t *second_copies(const struct sosc_ruby_reading *reading)
{
	return copies(reading) + COPY_ROOM;
}

/**
 * Return COPY_ROOM bytes that are free after a code object has been read, when only its texts and
 * its line are kept.
 */
void *sosc_ruby_reading_room(const struct sosc_ruby_reading *reading)
{
	return copies(reading);
}

static uint64_t word_at(const uint8_t *copy, uint32_t at)
{
	uint64_t word;

	memcpy(&word, copy + at, sizeof(word)); // copies behind a text are not aligned
	return word;
}

// ---- parts -----------------------------------------------------------------------

// Returns the address of a copy of a part, or NULL if it cannot be read.
static const uint8_t *fetch(struct sosc_ruby_reading *reading, uint64_t addr, uint32_t size)
{
	struct sosc_chain_part *part = &reading->chain->part[reading->parts];
	uint8_t *to = copies(reading) + reading->size;

	if (reading->parts == PARTS || size > COPY_ROOM - reading->size || addr + size < addr)
		return NULL;
	*part = (struct sosc_chain_part){addr, size};
	if (size && !sosc_parts_read(reading->tid, to, part, 1, size))
		return NULL;
	reading->parts++;
	reading->size += size;
	return to;
}

// Reads the object *value, and returns the address of its copy. If the collector has moved the
// object, *value becomes its new address. `kinds` has a bit for each acceptable kind. The result is
// NULL for an object of another kind, and for an object that cannot be read.
static const uint8_t *fetch_object(struct sosc_ruby_reading *reading, sosc_value *value,
				   uint32_t kinds)
{
	for (int i = 0; i < 2; i++) {
		uint32_t bit = 1u << reading->parts, kind;
		const uint8_t *copy =
			*value && !(*value & 7) ? fetch(reading, *value, OBJECT_SIZE) : NULL;

		if (!copy)
			return NULL;
		reading->objects |= bit;
		kind = (uint32_t)word_at(copy, 0) & SOSC_RUBY_KIND;
		if (kinds >> kind & 1)
			return copy;
		if (kind != KIND_MOVED)
			return NULL;
		*value = word_at(copy, OBJECT_MOVED_TO);
	}
	return NULL;
}

// Copies all parts a second time. Returns whether they are unchanged.
static bool is_confirmed(const struct sosc_ruby_reading *reading)
{
	uint8_t *first = copies(reading), *second = second_copies(reading);
	uint32_t at = 0;

	if (!sosc_parts_read(reading->tid, second, reading->chain->part, reading->parts,
			     reading->size))
		return false;
	for (uint32_t i = 0; i < reading->parts; i++) {
		if (reading->objects >> i & 1) { // the collector changes flags, too
			uint64_t flags = word_at(first, at) & ~(uint64_t)FLAGS_OF_COLLECTOR;
			uint64_t again = word_at(second, at) & ~(uint64_t)FLAGS_OF_COLLECTOR;

			memcpy(first + at, &flags, sizeof(flags));
			memcpy(second + at, &again, sizeof(again));
		}
		at += (uint32_t)reading->chain->part[i].size;
	}
	return !memcmp(first, second, reading->size);
}

// ---- contents of the parts ----------------------------------------------------------

static bool fetch_text(struct sosc_ruby_reading *reading, sosc_value value,
		       struct sosc_ruby_text *text)
{
	const uint8_t *string = fetch_object(reading, &value, 1u << KIND_STRING);
	uint64_t flags, size, from;

	if (!string)
		return false;
	flags = word_at(string, 0);
	size = word_at(string, STRING_SIZE);
	if (flags & LIES_ELSEWHERE) {
		from = word_at(string, STRING_DATA);
	} else if (reading->at->has_long_texts) {
		from = value + STRING_DATA;
	} else {
		from = value + STRING_SIZE;
		size = flags >> STRING_SHORT_SIZE & STRING_SHORT_MASK;
	}
	text->size = size < RUBY_TEXT_MAX ? (uint32_t)size : RUBY_TEXT_MAX;
	text->data = (const char *)fetch(reading, from, text->size);
	for (uint32_t i = 0; text->data && i < text->size; i++)
		if (!text->data[i])
			return false; // it is being moved
	return text->data;
}

// Reads the path of code: a string, or the first string of an array.
static bool fetch_path(struct sosc_ruby_reading *reading, sosc_value value)
{
	const uint8_t *object = fetch_object(reading, &value, 1u << KIND_STRING | 1u << KIND_ARRAY);
	uint64_t flags = object ? word_at(object, 0) : 0;

	if (object && (flags & SOSC_RUBY_KIND) == KIND_ARRAY) {
		if (flags & LIES_INSIDE)
			object += ARRAY_SHORT_DATA;
		else
			object = fetch(reading, word_at(object, ARRAY_DATA), sizeof(value));
		value = object ? word_at(object, 0) : 0;
	}
	return object && fetch_text(reading, value, &reading->path);
}

// Returns how many entries of a line table begin up to a word of code, or 0 if it cannot be read.
static uint64_t fetch_rank(struct sosc_ruby_reading *reading, uint64_t index, uint64_t place)
{
	const uint8_t *copy;
	uint64_t word, bit, rank = 0;

	if (place < FIRST) {
		copy = fetch(reading, index + place / A_WORD * 8, 8);
		word = copy ? word_at(copy, 0) : 0;
		return word >> place % A_WORD * FIRST_BITS & ((1 << FIRST_BITS) - 1);
	}
	place -= FIRST;
	copy = fetch(reading, index + FIRST / A_WORD * 8 + place / BLOCK * BLOCK_SIZE, BLOCK_SIZE);
	if (!copy)
		return 0;
	word = place % BLOCK / 64;
	bit = place % 64;
	if (word)
		rank = word_at(copy, BLOCK_RANKS) >> (word - 1) * RANK_BITS &
		       ((1 << RANK_BITS) - 1);
	for (word = word_at(copy, (uint32_t)(BLOCK_BITS + 8 * word)) & ((2ull << bit) - 1); word;
	     word &= word - 1)
		rank++;
	return (uint32_t)word_at(copy, 0) + rank;
}

// Reads the line of the word at @place. @lines: the body's description of its line table.
static bool fetch_line(struct sosc_ruby_reading *reading, const uint8_t *lines, uint64_t place)
{
	uint32_t count = (uint32_t)word_at(lines, LINES_COUNT);
	const uint8_t *entry;
	uint64_t rank = 1;

	reading->line = 0;
	if (!count)
		return true;
	if (count > 1)
		rank = fetch_rank(reading, word_at(lines, LINES_INDEX), place);
	if (!rank || rank > count)
		return false;
	entry = fetch(reading, word_at(lines, 0) + (rank - 1) * reading->at->line,
		      sizeof(reading->line));
	if (entry)
		memcpy(&reading->line, entry, sizeof(reading->line));
	return entry;
}

static bool fetch_code(struct sosc_ruby_reading *reading, uint64_t frame, uint64_t pc)
{
	const uint8_t *code = fetch(reading, frame + RUBY_FRAME_CODE, sizeof(sosc_value)), *body;
	sosc_value value = code ? word_at(code, 0) : 0;
	uint64_t place;

	code = fetch_object(reading, &value, 1u << KIND_IMEMO);
	if (!code || !sosc_ruby_is_code(word_at(code, 0)))
		return false;
	body = fetch(reading, word_at(code, RUBY_CODE_BODY), reading->at->lines + LINES_SIZE);
	if (!body)
		return false;
	place = pc - word_at(body, RUBY_BODY_CODE);
	if (place & 7 || place / 8 > word_at(body, 0) >> RUBY_BODY_SIZE)
		return false;
	return fetch_line(reading, body + reading->at->lines, place ? place / 8 - 1 : 0) &&
	       fetch_text(reading, word_at(body, BODY_LABEL), &reading->label) &&
	       fetch_path(reading, word_at(body, BODY_PATH));
}

static void keep(struct sosc_ruby_text *text, uint8_t *to)
{
	memcpy(to, text->data, text->size);
	to[text->size] = 0;
	text->data = (const char *)to;
}

/**
 * Read path, label and line of the code of the control frame at @frame. The line is the one before
 * @pc, where the frame continues. Return false if what was read is not certain.
 */
bool sosc_ruby_reading_code(struct sosc_ruby_reading *reading, uint64_t frame, uint64_t pc)
{
	for (int i = 0; i < TRIES; i++) {
		reading->parts = reading->objects = reading->size = 0;
		if (!fetch_code(reading, frame, pc) || !is_confirmed(reading))
			continue;
		keep(&reading->path, second_copies(reading));
		keep(&reading->label, second_copies(reading) + RUBY_TEXT_MAX + 1);
		return true;
	}
	return false;
}
