// SPDX-License-Identifier: Apache-2.0
// Lines about objects for the program itself, in memprof's form. They are not made by Ruby code,
// since each line would be an object there, and would be counted with the program's own.

#include "base/sys.h"
#include "objects/ruby/ruby.h"
#include "vm/origin.h"

enum {
	KIND_NAME_MAX = 16, // bytes
	WIDTH = 7, // columns of a count
	DIGITS_MAX = 20,
};

struct line {
	uint64_t count;
	struct sosc_text file, type;
	uint32_t number;
};

// Names for objects that have no class. The array holds no pointers, which would need relocations.
static const char kinds[SOSC_RUBY_BUILTIN][KIND_NAME_MAX] = {
	[1] = "__object__",
	[2] = "__class__",
	[3] = "__module__",
	[4] = "__float__",
	[5] = "__string__",
	[6] = "__regexp__",
	[7] = "__array__",
	[8] = "__hash__",
	[9] = "__struct__",
	[10] = "__bignum__",
	[11] = "__file__",
	[12] = "__data__",
	[13] = "__match__",
	[14] = "__complex__",
	[15] = "__rational__",
	[20] = "__symbol__",
	[KIND_IMEMO] = "__imemo__",
	[KIND_NODE] = "__node__",
	[KIND_ICLASS] = "__iclass__",
};
static const char unknown_kind[] = "__unknown__", anonymous[] = "#<Class>", nowhere[] = "?";

static struct sosc_text text_of(const char *data)
{
	struct sosc_text text = {data, 0, 0};

	while (data[text.size])
		text.size++;
	return text;
}

/** Return the name for objects of a row's type. */
struct sosc_text sosc_ruby_type_text(uint32_t type)
{
	const struct sosc_ruby_type *class;

	if (type < SOSC_RUBY_BUILTIN)
		return text_of(*kinds[type] ? kinds[type] : unknown_kind);
	type -= SOSC_RUBY_BUILTIN;
	class = sosc_ruby_types && type < SOSC_RUBY_TYPES ? &sosc_ruby_types[type] : NULL;
	if (!class || !class->name)
		return text_of(anonymous);
	return (struct sosc_text){(const void *)class->name, class->size, 0};
}

// The program may pass any number.
static const struct sosc_origin *origin_of(uint32_t number)
{
	return number < sosc_objects_tally.origin_count ? &sosc_origins[number] : NULL;
}

/** Return the file of an origin. */
struct sosc_text sosc_ruby_file_text(uint32_t origin)
{
	const struct sosc_origin *at = origin_of(origin);
	const struct sosc_code *code = at ? (const void *)at->copy : NULL;

	return code ? (struct sosc_text){code + 1, code->file_size, 0} : text_of(nowhere);
}

/** Return the line of an origin. */
uint32_t sosc_ruby_line(uint32_t origin)
{
	const struct sosc_origin *at = origin_of(origin);

	return at && at->copy ? (uint32_t)at->instr : 0;
}

static struct line line_of(const struct sosc_ruby_row *row)
{
	return (struct line){
		.count = row->count,
		.file = sosc_ruby_file_text(row->origin),
		.type = sosc_ruby_type_text(row->type),
		.number = sosc_ruby_line(row->origin),
	};
}

// ---- order -------------------------------------------------------------------------

static int compare_texts(const struct sosc_text *a, const struct sosc_text *b)
{
	int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);

	return order ? order : (a->size > b->size) - (a->size < b->size);
}

static int by_place(const struct line *a, const struct line *b)
{
	int order = compare_texts(&a->file, &b->file);

	if (!order)
		order = (a->number > b->number) - (a->number < b->number);
	return order ? order : compare_texts(&a->type, &b->type);
}

static int by_count(const struct line *a, const struct line *b)
{
	return a->count == b->count ? by_place(a, b) : a->count < b->count ? 1 : -1;
}

static void sift(struct line *lines, uint64_t at, uint64_t count,
		 int (*compare)(const struct line *, const struct line *))
{
	for (uint64_t child; (child = 2 * at + 1) < count; at = child) {
		struct line line = lines[at];

		if (child + 1 < count && compare(&lines[child], &lines[child + 1]) < 0)
			child++;
		if (compare(&line, &lines[child]) >= 0)
			return;
		lines[at] = lines[child];
		lines[child] = line;
	}
}

static void sort(struct line *lines, uint64_t count,
		 int (*compare)(const struct line *, const struct line *))
{
	for (uint64_t at = count / 2; at > 0; at--)
		sift(lines, at - 1, count, compare);
	for (uint64_t left = count; left > 1; left--) {
		struct line last = lines[left - 1];

		lines[left - 1] = lines[0];
		lines[0] = last;
		sift(lines, 0, left - 1, compare);
	}
}

// Several classes may have the same name: a singleton class has the name of the class behind it.
static uint64_t merge(struct line *lines, uint64_t count)
{
	uint64_t merged = 0;

	sort(lines, count, by_place);
	for (uint64_t i = 0; i < count; i++) {
		if (merged && !by_place(&lines[merged - 1], &lines[i]))
			lines[merged - 1].count += lines[i].count;
		else
			lines[merged++] = lines[i];
	}
	return merged;
}

// ---- text --------------------------------------------------------------------------

static char *put_text(char *to, struct sosc_text text)
{
	memcpy(to, text.data, text.size);
	return to + text.size;
}

static char *put_number(char *to, uint64_t number, uint32_t width)
{
	char digits[DIGITS_MAX];
	uint32_t size = 0;

	for (; number || !size; number /= 10)
		digits[size++] = (char)('0' + number % 10);
	for (; width > size; width--)
		*to++ = ' ';
	while (size)
		*to++ = digits[--size];
	return to;
}

static char *put_line(char *to, const struct line *line)
{
	to = put_number(to, line->count, WIDTH);
	*to++ = ' ';
	to = put_text(to, line->file);
	*to++ = ':';
	to = put_number(to, line->number, 0);
	*to++ = ':';
	to = put_text(to, line->type);
	*to++ = '\n';
	return to;
}

static uint64_t most_of(const struct line *line) // most bytes of the line
{
	return line->file.size + line->type.size + 2 * DIGITS_MAX + 4;
}

static void *map(uint64_t size)
{
	void *made =
		sosc_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sosc_mmap_failed(made) ? NULL : made;
}

static void unmap(void *start, uint64_t size)
{
	if (start)
		(void)sosc_sys3(SYS_MUNMAP, (long)start, (long)size, 0);
}

static sosc_value string_of(const struct line *lines, uint64_t count)
{
	uint64_t room = 1;
	char *text, *end;
	sosc_value string;

	for (uint64_t i = 0; i < count; i++)
		room += most_of(&lines[i]);
	text = end = map(room);
	if (!text)
		return 0;
	for (uint64_t i = 0; i < count; i++)
		end = put_line(end, &lines[i]);
	string = sosc_rb.rb_utf8_str_new(text, end - text);
	unmap(text, room);
	return string;
}

/**
 * Return a String with a line for each file, line and type of live objects, without objects that
 * have one of the bits @bits in their words. Return 0 if there is no memory. *lost becomes the
 * number of objects that are in no line.
 */
sosc_value sosc_ruby_stats(uint32_t bits, uint64_t *lost)
{
	struct sosc_ruby_rows rows;
	sosc_value string = 0;
	uint64_t count = 0, room = sizeof(struct line);
	struct line *lines;

	if (!sosc_ruby_count(bits, &rows))
		return 0;
	*lost = rows.lost + sosc_objects_tally.lost;
	for (uint64_t i = 0; i < rows.count; i++)
		room += rows.rows[i].count ? sizeof(*lines) : 0;
	lines = map(room);
	for (uint64_t i = 0; lines && i < rows.count; i++)
		if (rows.rows[i].count)
			lines[count++] = line_of(&rows.rows[i]);
	sosc_ruby_rows_free(&rows);
	if (lines) {
		count = merge(lines, count);
		sort(lines, count, by_count);
		string = string_of(lines, count);
	}
	unmap(lines, room);
	return string;
}
