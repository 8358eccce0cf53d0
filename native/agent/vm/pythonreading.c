// SPDX-License-Identifier: Apache-2.0
// Copies of Python frames. The words of a frame by which a walk goes on are noted.

#include "vm/pythonreading.h"
#include "base/memory.h"

static uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

// These return how many bytes of a frame, a code object or a text are read, or 0 if there are too
// many.
static uint32_t part_of_frame(const struct sosc_python *at)
{
	uint32_t size = larger(larger(at->frame_code, at->frame_previous), at->frame_instr) + 8;

	if (at->frame_owner != SOSC_NONE)
		size = larger(size, (at->frame_owner & ~7u) + 8);
	if (at->frame_entry != SOSC_NONE)
		size = larger(size, (at->frame_entry & ~7u) + 8);
	return size <= READING_PART ? size : 0;
}

uint32_t sosc_part_of_code(const struct sosc_python *at)
{
	uint32_t size = larger(larger(at->code_file, at->code_name), at->code_lines) + 8;

	size = larger(size, at->code_first_line + 4);
	return size <= READING_PART ? size : 0;
}

uint32_t sosc_part_of_text(const struct sosc_python *at)
{
	uint32_t size = larger(at->text_length + 8, at->text_state + 4);

	return size <= READING_PART ? size : 0;
}

/** Return the address of a copy of @size bytes at @addr, or 0 if they cannot be read. */
uint64_t sosc_part_copy(const struct sosc_reading *reading, uint8_t *copy, uint64_t addr,
			uint32_t size)
{
	return size && sosc_read(reading->tid, copy, addr, size) == size ? (uint64_t)copy : 0;
}

/** Read a word that leads to frames. Return false if it cannot be read. */
bool sosc_read_word(const struct sosc_reading *reading, uint64_t addr, uint64_t *value)
{
	if (sosc_read(reading->tid, value, addr, sizeof(*value)) != sizeof(*value))
		return false;
	sosc_chain_note(reading->chain, addr, *value);
	return true;
}

// Notes the words of a frame, whose copy lies at @from, by which a walk goes on.
static void note(const struct sosc_reading *reading, uint64_t frame, uint64_t from)
{
	const struct sosc_python *at = reading->at;
	const uint32_t words[] = {at->frame_code, at->frame_previous, at->frame_instr,
				  at->frame_owner & ~7u, at->frame_entry & ~7u};

	for (uint32_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (words[i] < READING_PART) // else this version has no such field
			sosc_chain_note(reading->chain, frame + words[i], word_at(from + words[i]));
}

/**
 * Return the address of a copy of a frame, or 0 if it cannot be read. Most callers' frames lie
 * right below a frame, so the rest of the page below is read with it.
 */
uint64_t sosc_frame_copy(struct sosc_reading *reading, uint64_t frame)
{
	uint64_t size = part_of_frame(reading->at), end = frame + size, low, copy;

	if (!size || end < frame)
		return 0;
	low = frame & ~(uint64_t)(SOSC_PAGE - 1);
	if (end - low > reading->window.room)
		low = end - reading->window.room;
	copy = sosc_window_at(&reading->window, reading->tid, frame, size, low, end);
	if (copy)
		note(reading, frame, copy);
	return copy;
}
