// SPDX-License-Identifier: Apache-2.0
// Which line of Ruby makes an object, with a Ruby that says what this program likes: a file is known by
// its name, wherever that lies, and a name is read up to its end and no further.
#include "host.h"

#include <string.h>

#include "objects/common/objects.h"
#include "vm/origin.h"
#include "objects/ruby/ruby.h"

enum {
	LONG = 4096, // bytes of a name that are kept
	NAMES = 40, // more than the places that are tried
	WORD = 8,
};

static const char *file_now;
static int line_now;

static const char *source_location(int *line)
{
	*line = line_now;
	return file_now;
}

static const char *source_file(void)
{
	return file_now;
}

static int source_line(void)
{
	return line_now;
}

static uint32_t origin_of(const char *file, int line)
{
	file_now = file;
	line_now = line;
	return sosc_ruby_origin();
}

// A copy that ends where memory does, with as much in front of it as makes it begin so.
static char *at_the_edge(const char *text, uint64_t size)
{
	char *copy = host_edge(size + 1);

	memcpy(copy, text, size);
	return copy;
}

static bool says(uint32_t number, const char *text, uint32_t size, int line)
{
	const struct sosc_code *code = (const void *)sosc_origins[number].copy;

	return number >= ORIGINS_FIRST && code->file_size == size &&
	       !memcmp(code + 1, text, size) && sosc_ruby_line(number) == (uint32_t)line;
}

static void check_names(void)
{
	static const char text[] = "/some/where/of/some/length.rb";

	for (uint32_t size = 1; size < sizeof(text); size++) {
		char *name = at_the_edge(text, size), *other = at_the_edge(text, size);
		uint32_t number = origin_of(name, 7);

		CHECK(says(number, text, size, 7));
		CHECK(origin_of(name, 7) == number && origin_of(other, 7) == number);
		CHECK(says(origin_of(name, 8), text, size, 8));
		name[size - 1] = '~'; // another name is where this one was
		CHECK(origin_of(name, 7) != number && says(origin_of(name, 7), name, size, 7));
		name[size - 1] = '\0';
		CHECK(origin_of(name, 7) != number);
		CHECK(origin_of(other, 7) == number);
	}
	CHECK(origin_of(NULL, 7) == ORIGIN_NOWHERE);
}

// Of a name that is longer than what is kept of one, only that is compared.
static void check_long(void)
{
	static char text[LONG + WORD];
	uint32_t number, size = LONG + 3;
	char *names[NAMES];

	memset(text, 'x', size);
	for (int i = 0; i < NAMES; i++)
		names[i] = at_the_edge(text, size);
	number = origin_of(names[0], 3);
	CHECK(says(number, text, LONG, 3));
	for (int i = 0; i < NAMES; i++)
		CHECK(origin_of(names[i], 3) == number);
	names[0][1] = 'y';
	CHECK(origin_of(names[0], 3) != number);
	names[1][LONG - 1] = '\0';
	CHECK(says(origin_of(names[1], 3), text, LONG - 1, 3));
}

static void check_ours(void)
{
	static const char ours[] = "/ours.rb", theirs[] = "/theirs.rb";
	uint32_t theirs_number = origin_of(theirs, 1), number = origin_of(ours, 1);
	uint32_t *word = sosc_side_make(0x10000), *other = sosc_side_make(0x20000);

	sosc_object_made(0x10000, word, 0, number);
	sosc_object_made(0x20000, other, 0, theirs_number);
	CHECK(sosc_objects_tally.created == 2);
	sosc_ruby_disown(ours);
	CHECK(!*word && *other && sosc_objects_tally.created == 1);
	CHECK(origin_of(ours, 1) == ORIGIN_OURS && origin_of(ours, 2) == ORIGIN_OURS);
	CHECK(origin_of(theirs, 1) == theirs_number);
}

int main(void)
{
	sosc_side_begin();
	CHECK(sosc_origins_init());
	sosc_rb.rb_source_location_cstr = source_location;
	check_names();
	check_long();
	sosc_rb.rb_source_location_cstr = NULL; // of older ones
	sosc_rb.rb_sourcefile = source_file;
	sosc_rb.rb_sourceline = source_line;
	check_names();
	check_ours();
	return 0;
}
