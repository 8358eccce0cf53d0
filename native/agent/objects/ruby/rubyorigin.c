// SPDX-License-Identifier: Apache-2.0
// The line of Ruby code that makes an object, as Ruby itself reports it. The text of the file's
// name is freed with its code, and another text may get its address. So files are identified by
// their names.

#include "base/memory.h"
#include "objects/common/objects.h"
#include "objects/common/picks.h"
#include "objects/ruby/ruby.h"
#include "vm/origin.h"

enum {
	RECENT = 4096, // a power of two
	FILES = 1 << 14, // a power of two
	FILE_MAX = 4096, // bytes of a name
	FILES_TRIED = 32,
	WORD = 8,
};

struct file {
	uint64_t copy; // address of struct sosc_code, 0 if the entry is free
	uint32_t hash;
	bool is_ours;
};

// An origin that was looked up recently.
static struct recent {
	const char *file; // address of the file's name at that time
	const char *name; // a copy
	uint32_t size;
	int32_t line;
	uint32_t number;
} recent[RECENT];

static struct file files[FILES];

// @text may be shorter than @copy. It may still be read by aligned words, as each of them lies on
// one page. Names longer than FILE_MAX are identified by the bytes that are kept.
static bool is_text(const char *text, const char *copy, uint32_t size)
{
	uint32_t i = 0;

	if (!((uint64_t)text & (WORD - 1)))
		while (i + WORD <= size &&
		       *(const uint64_t *)(text + i) == *(const uint64_t *)(copy + i))
			i += WORD;
	while (i < size && text[i] == copy[i])
		i++;
	return i == size && (size == FILE_MAX || !text[size]);
}

static uint32_t measure(const char *text, uint32_t *size)
{
	uint32_t hash = 5381, i = 0;

	for (; text[i] && i < FILE_MAX; i++)
		hash = hash * 33 + (uint8_t)text[i];
	*size = i;
	return hash;
}

static struct file *find(const char *text, uint32_t size, uint32_t hash)
{
	for (uint32_t i = 0; i < FILES_TRIED; i++) {
		struct file *file = &files[(hash + i) & (FILES - 1)];
		const struct sosc_code *code = (const void *)file->copy;

		if (!code || (file->hash == hash && code->file_size == size &&
			      is_text(text, (const char *)(code + 1), size)))
			return file;
	}
	return NULL;
}

// Returns the number of the origin. *copy becomes the struct behind which the file's name stands.
static uint32_t number_of(const char *text, int32_t line, const struct sosc_code **copy)
{
	uint32_t size, hash = measure(text, &size), number;
	struct file *file = find(text, size, hash);
	struct sosc_code_texts texts = {{text, size, 0}, {"", 0, 0}, {"", 0, 0}};
	struct sosc_origin origin = {.instr = line,
				     .size = sosc_picks.is_wanted ? SOSC_RUBY_SLOT : 0};
	bool is_new;

	*copy = NULL;
	if (!file)
		return ORIGIN_UNKNOWN;
	is_new = !file->copy;
	origin.code = (uint64_t)file;
	number = sosc_origin_find(&origin, ORIGIN_ALWAYS);
	if (!number)
		number = sosc_origin_make(&origin, &texts, ORIGIN_ALWAYS);
	if (number == ORIGIN_UNKNOWN)
		return number;
	*copy = (const void *)sosc_origins[number].copy;
	file->hash = hash;
	file->copy = (uint64_t)*copy;
	if (is_new)
		sosc_ruby_meet(text);
	return file->is_ours ? ORIGIN_OURS : number;
}

/** Return the number of the origin for an object that the thread that holds the GVL is making. */
uint32_t sosc_ruby_origin(void)
{
	const struct sosc_code *copy;
	const char *file;
	struct recent *entry;
	uint32_t number;
	int line = 0;

	if (sosc_objects_types)
		return ORIGIN_NOWHERE;
	if (sosc_rb.rb_source_location_cstr) {
		file = sosc_rb.rb_source_location_cstr(&line);
	} else {
		file = sosc_rb.rb_sourcefile();
		line = sosc_rb.rb_sourceline();
	}
	if (!file)
		return sosc_origin_nowhere(sosc_picks.is_wanted ? SOSC_RUBY_SLOT : 0);
	entry = &recent[((uint64_t)file >> 3 ^ (uint64_t)line * 0x9e37) & (RECENT - 1)];
	if (entry->file == file && entry->line == line && is_text(file, entry->name, entry->size))
		return entry->number;
	number = number_of(file, line, &copy);
	if (copy) {
		entry->file = file;
		entry->name = (const char *)(copy + 1);
		entry->size = copy->file_size;
		entry->line = line;
		entry->number = number;
	}
	return number;
}

/** The agent rests: the copies in the origins have been unmapped. */
void sosc_ruby_origins_rest(void)
{
	sosc_memory_clear(recent, sizeof(recent));
	sosc_memory_clear(files, sizeof(files));
}

// ---- soscope's own files -----------------------------------------------------------

static const struct file *ours;

static uint32_t without_ours(uint32_t word)
{
	if (sosc_origins[word & SOSC_SIDE_ORIGIN].code != (uint64_t)ours)
		return word;
	sosc_objects_tally.created--;
	return 0;
}

/**
 * Objects that the file @text makes, or has made, are not the program's. The thread holds the GVL.
 */
void sosc_ruby_disown(const char *text)
{
	const struct sosc_code *copy;
	uint32_t size, hash = measure(text, &size);
	struct file *file;

	(void)number_of(text, 0, &copy);
	file = copy ? find(text, size, hash) : NULL;
	if (!file)
		return;
	file->is_ours = true;
	ours = file;
	memset(recent, 0, sizeof(recent));
	sosc_side_change(without_ours);
}
