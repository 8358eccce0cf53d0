// SPDX-License-Identifier: Apache-2.0
// The arguments that a printf format names: strings, and arguments in vector registers and on the
// stack (psABI, section 3.2.3: variable arguments are passed like others).

#include "base/arch.h"
#include "trace/capture.h"

enum {
	STACK_MAX = 16,
	WIDTH = 256, // C libraries allocate no memory for narrower fields
};

struct named { // a string argument
	uint64_t from;
	uint32_t precision;
	uint8_t item;
	bool is_wide;
	bool is_sure; // no conversion before it can fail
};

struct arguments {
	struct sosc_capture *capture;
	struct list *list; // the va_list that holds them, NULL if registers and the stack do
	uint64_t *stack;
	uint32_t stack_known; // number of words that could be read, valid if `stack_wanted`
	bool stack_wanted;
	bool is_plain; // the format has nothing that a C library might reject
	bool is_sure; // nothing so far can fail
	uint32_t words, floats, memory; // how many arguments of each kind were used
	uint8_t item; // number of the next argument of the call
	uint32_t named_count;
	struct named *named;
};

static uint32_t stack_known(struct arguments *arguments)
{
	const struct sosc_capture *capture = arguments->capture;

	if (!arguments->stack_wanted)
		arguments->stack_known =
			(uint32_t)sosc_checked_copy(capture, arguments->stack,
						    (uint64_t)capture->regs->stack,
						    STACK_MAX * sizeof(*arguments->stack)) /
			8;
	arguments->stack_wanted = true;
	return arguments->stack_known;
}

// ---- a va_list ---------------------------------------------------------------

// A va_list and what has been taken from it.
struct list {
	struct sosc_capture *capture;
	struct sosc_va_list next;
	union sosc_wide *room;
	uint32_t saved_known, memory_known; // bytes that could be read
	uint32_t memory; // bytes on the stack that have been taken
	uint32_t values; // words kept
	bool memory_wanted;
	bool is_over; // the next value cannot be read, or there is no room for it
};

// Does the same as sosc_checked_copy, but reads more at a time: the parts of a va_list usually lie
// close together.
static uint64_t near_copy(struct list *list, void *to, uint64_t from, uint64_t size)
{
	union sosc_wide *room = list->room;
	uint64_t at = from - room->near_from;

	if (sosc_capture_is_there(list->capture, from, size, false))
		return sosc_checked_copy(list->capture, to, from, size);
	if (at > room->near_known || size > room->near_known - at) {
		room->near_known =
			sosc_checked_copy(list->capture, room->near, from, sizeof(room->near));
		room->near_from = from;
		at = 0;
	}
	if (size > room->near_known - at)
		size = room->near_known - at;
	memcpy(to, room->near + at, size);
	return size;
}

static void read_list(struct list *list, uint64_t from, bool is_read)
{
	const struct sosc_va_list *next = &list->next;
	uint32_t start = SOSC_SAVED_INTEGERS;

	list->room->near_known = 0;
	if (is_read && sosc_capture_is_there(list->capture, from, sizeof(list->next), true))
		memcpy(&list->next, (const void *)from, sizeof(list->next));
	else
		list->is_over = near_copy(list, &list->next, from, sizeof(list->next)) !=
				sizeof(list->next);
	list->is_over |= next->integers % 8 != 0;
	if (list->is_over)
		return;
	if (next->integers < SOSC_SAVED_INTEGERS)
		start = next->integers;
	list->saved_known = start + (uint32_t)near_copy(list, (uint8_t *)list->room->saved + start,
							next->saved + start,
							SOSC_SAVED_SIZE - start);
}

// Keeps @count words at offset @bytes of @from, of which @known bytes could be read.
static void take(struct list *list, const uint64_t *from, uint32_t bytes, uint32_t known,
		 uint32_t count)
{
	list->is_over |= bytes + 8 * count > known || list->values + count > SOSC_VALUES_MAX;
	for (uint32_t i = 0; i < count && !list->is_over; i++)
		list->room->values[list->values++] = from[bytes / 8 + i];
}

static void take_memory(struct list *list, uint32_t count)
{
	if (!list->memory_wanted)
		list->memory_known = (uint32_t)near_copy(
			list, list->room->memory, list->next.memory, sizeof(list->room->memory));
	list->memory_wanted = true;
	take(list, list->room->memory, list->memory, list->memory_known, count);
	list->memory += 8 * count;
}

static uint64_t listed_word(struct list *list)
{
	uint32_t at = list->next.integers;

	if (at < SOSC_SAVED_INTEGERS) {
		take(list, list->room->saved, at, list->saved_known, 1);
		list->next.integers = at + 8;
	} else {
		take_memory(list, 1);
	}
	return list->is_over ? 0 : list->room->values[list->values - 1];
}

static void next_listed_float(struct list *list, bool is_long)
{
	uint32_t at = list->next.floats;

	// code that takes no floating point arguments does not always set their offset
	list->is_over |= !is_long && (at % 8 || at < SOSC_SAVED_INTEGERS);
	if (is_long) { // aligned on the stack
		list->memory += (uint32_t)-(list->next.memory + list->memory) & 15;
		take_memory(list, 2);
	} else if (at < SOSC_SAVED_SIZE) {
		take(list, list->room->saved, at, list->saved_known, 1);
		list->next.floats = at + 16;
	} else {
		take_memory(list, 1);
	}
}

// ---- the conversions of a format ----------------------------------------------

static uint64_t next_word(struct arguments *arguments)
{
	uint64_t word = 0;

	if (arguments->list)
		word = listed_word(arguments->list);
	else if (arguments->words < SOSC_REGISTER_ARGUMENTS)
		word = arguments->capture->words[arguments->words++];
	else if (arguments->memory < stack_known(arguments))
		word = arguments->stack[arguments->memory++];
	else
		arguments->memory++;
	arguments->item++;
	return word;
}

static void next_float(struct arguments *arguments, bool is_long)
{
	if (arguments->list)
		next_listed_float(arguments->list, is_long);
	else if (is_long) // 16 bytes on the stack
		arguments->memory = (arguments->memory + 1) / 2 * 2 + 2;
	else if (arguments->floats < SOSC_FLOAT_ARGUMENTS)
		arguments->floats++;
	else
		arguments->memory++;
	arguments->item++;
}

static void name_string(struct arguments *arguments, uint32_t precision, bool is_wide)
{
	uint8_t item = arguments->item;
	uint64_t from = next_word(arguments);
	bool is_over = arguments->list && arguments->list->is_over;

	if (!is_over && arguments->named_count < SOSC_ITEMS_MAX)
		arguments->named[arguments->named_count++] =
			(struct named){from, precision, item, is_wide, arguments->is_sure};
}

// Measures a string argument. With a precision it need not end with a NUL.
static void measure(struct sosc_capture *capture, struct sosc_item *item, const struct named *named)
{
	uint32_t limit = sosc_session->string_limit, of = named->is_wide ? 4 : 1, most;

	if (named->is_wide && limit > SOSC_WCHARS_MAX)
		limit = SOSC_WCHARS_MAX;
	most = named->precision < limit ? named->precision : limit + 1;
	if (named->is_wide)
		sosc_capture_wchars(capture, item, of * most);
	else
		sosc_capture_string(capture, item, most - 1);
	if (item->size > of * limit && named->precision > limit) {
		item->size = of * limit;
		item->flags |= SOSC_DATA_TRUNCATED;
	}
}

// Adds the strings of a format that was parsed to its end. If @are_read, the function itself reads
// them; even then they are checked, starting with the first string that the function may not have
// reached.
static void add_strings(struct arguments *arguments, bool are_read)
{
	for (uint32_t i = 0; i < arguments->named_count; i++) {
		const struct named *named = &arguments->named[i];
		struct sosc_item item = {.from = named->from,
					 .kind = SOSC_DATA_STRING,
					 .item = named->item,
					 .checked = !are_read || !named->is_sure};

		if (!named->from) {
			item.flags = SOSC_DATA_NULL;
		} else if (named->precision) { // printf reads nothing if the precision is 0
			measure(arguments->capture, &item, named);
		}
		are_read &=
			!item.flags; // a string without an end may exceed all that printf can write
		sosc_capture_add(arguments->capture, item);
	}
}

// Returns the precision after a star. A star after the point is the precision; a negative value
// means none.
static uint32_t star(uint32_t precision, uint64_t word)
{
	if (precision)
		return precision; // the star was a width
	return (int32_t)word < 0 ? UINT32_MAX : (uint32_t)word;
}

enum conversion { UNKNOWN, WORD, REAL, STRING, WIDE_STRING, NOTHING };

static enum conversion conversion(char c, bool is_long)
{
	switch (c) {
	case 'd':
	case 'i':
	case 'o':
	case 'u':
	case 'x':
	case 'X':
	case 'c':
	case 'C':
	case 'p':
	case 'n':
		return WORD;
	case 'a':
	case 'A':
	case 'e':
	case 'E':
	case 'f':
	case 'F':
	case 'g':
	case 'G':
		return REAL;
	case 's':
		return is_long ? WIDE_STRING : STRING;
	case 'S':
		return WIDE_STRING;
	case '%':
	case 'm':
		return NOTHING;
	default:
		return UNKNOWN;
	}
}

static bool is_flag(char c)
{
	return c == '-' || c == '+' || c == ' ' || c == '#' || c == '0' || c == '\'' || c == 'I';
}

static bool is_size(char c)
{
	return c == 'h' || c == 'l' || c == 'L' || c == 'q' || c == 'j' || c == 'z' || c == 't';
}

// Parses one conversion after its percent sign. Returns what follows it.
static const char *convert(struct arguments *arguments, const char *at)
{
	uint32_t precision = UINT32_MAX, number = 0;
	bool is_long_double = false, is_long = false, is_sized = false;
	const char *begin = at;
	uint64_t word;

	for (; is_flag(*at); at++)
		arguments->is_plain &= *at != 'I';
	for (; (*at >= '0' && *at <= '9') || *at == '*' || *at == '.' || *at == '$'; at++) {
		if (*at == '$')
			return NULL; // numbered arguments may come in any order
		if (*at == '.') {
			precision = number = 0;
		} else if (*at == '*') {
			word = next_word(arguments);
			precision = star(precision, word);
			arguments->is_plain &= (int32_t)word > -WIDTH && (int32_t)word < WIDTH;
		} else {
			number = number * 10 + (uint32_t)(*at - '0');
			arguments->is_plain &= number < WIDTH;
			if (precision != UINT32_MAX)
				precision = precision * 10 + (uint32_t)(*at - '0');
		}
	}
	for (; is_size(*at); at++) {
		is_sized = true;
		is_long_double |= *at == 'L';
		is_long |= *at == 'l';
		arguments->is_plain &= *at != 'L' && *at != 'q';
	}
	switch (conversion(*at, is_long)) {
	case WORD:
		(void)next_word(arguments);
		arguments->is_plain &= *at != 'n' && *at != 'C' &&
				       !(is_sized && (*at == 'c' || *at == 'p'));
		break;
	case REAL: // may allocate memory, and so fail
		next_float(arguments, is_long_double);
		arguments->is_sure = false;
		break;
	case STRING:
		name_string(arguments, precision, false);
		arguments->is_plain &= !is_sized;
		break;
	case WIDE_STRING: // fails if the string has invalid characters
		name_string(arguments, precision, true);
		arguments->is_plain = false;
		break;
	case NOTHING:
		arguments->is_plain &= at == begin;
		break;
	default:
		return NULL; // unknown: the following arguments cannot be determined
	}
	return at + 1;
}

/**
 * Copy the format that @op has kept as item number @kept, with a NUL behind it. Return the number
 * of characters. Return 0 if it cannot be read, or if there was no room for it.
 */
uint32_t sosc_capture_copy_format(const struct sosc_capture *capture, const struct sosc_op *op,
				  uint32_t kept, char format[SOSC_FORMAT_MAX])
{
	const struct sosc_item *item = &capture->items[kept];
	struct sosc_item shown = *item;
	uint32_t size;

	if (item->kind != SOSC_DATA_STRING || item->item != op->item)
		return 0;
	if (op->flags & SOSC_OP_WCHAR) {
		size = sosc_capture_narrowed(capture, format, item, SOSC_FORMAT_MAX - 1);
	} else {
		if (shown.size > SOSC_FORMAT_MAX - 1)
			shown.size = SOSC_FORMAT_MAX - 1;
		size = sosc_capture_copy(capture, format, &shown) == shown.size ? shown.size : 0;
	}
	format[size] = 0;
	return size;
}

// Parses the format that @op has kept as item @kept.
static void walk(struct arguments *arguments, const struct sosc_op *op, uint32_t kept)
{
	struct sosc_capture *capture = arguments->capture;
	const struct sosc_item *item = &capture->items[kept];
	struct named named[SOSC_ITEMS_MAX];
	char format[SOSC_FORMAT_MAX];
	const char *at = format;
	bool are_read;
	uint32_t size = sosc_capture_copy_format(capture, op, kept, format);

	if (!size)
		return;
	arguments->named = named;
	arguments->is_plain = arguments->is_sure = true;
	while (at && *at)
		at = *at == '%' ? convert(arguments, at + 1) : at + 1;
	are_read = op->flags & SOSC_OP_NAMES_READ && sosc_capture_is_read(capture, op);
	are_read &= !item->flags && size == item->size;
	add_strings(arguments, are_read && at && arguments->is_plain);
}

/** Add the arguments that the format at register op->arg names, behind the format itself. */
void sosc_capture_format(struct sosc_capture *capture, const struct sosc_op *op)
{
	uint64_t stack[STACK_MAX];
	struct arguments arguments = {.capture = capture,
				      .stack = stack,
				      .words = op->arg + 1u,
				      .item = (uint8_t)(op->item + 1)};

	if (capture->at_exit || !capture->count)
		return;
	walk(&arguments, op, capture->count - 1);
	if (arguments.floats) {
		sosc_capture_floats(capture);
		sosc_capture_add(capture, (struct sosc_item){.from = (uint64_t)capture->floats,
							     .size = 8 * arguments.floats,
							     .kind = SOSC_DATA_FLOATS});
	}
	if (!arguments.memory)
		return;
	if (arguments.memory > stack_known(&arguments))
		arguments.memory = arguments.stack_known;
	if (arguments.memory)
		sosc_capture_stack(capture, arguments.memory);
}

// Adds the item for the values of @list, which is at register @arg. Returns its index, or
// SOSC_ITEMS_MAX if the va_list cannot be read.
static uint32_t add_list(struct list *list, uint32_t arg, bool is_read)
{
	struct sosc_capture *capture = list->capture;
	uint32_t place = capture->count;
	uint64_t from;

	list->room = capture->wide;
	if (!list->room || !sosc_capture_word(capture, arg, &from))
		return SOSC_ITEMS_MAX;
	read_list(list, from, is_read);
	if (list->is_over)
		return SOSC_ITEMS_MAX;
	sosc_capture_add(capture, (struct sosc_item){.from = (uint64_t)list->room->values,
						     .kind = SOSC_DATA_BYTES,
						     .item = SOSC_ITEM_VALUES});
	return place;
}

/**
 * Do the same as sosc_capture_format, with the values in the va_list at register op->length_arg.
 */
void sosc_capture_va_format(struct sosc_capture *capture, const struct sosc_op *op)
{
	struct list list = {.capture = capture};
	struct arguments arguments = {
		.capture = capture, .list = &list, .item = (uint8_t)(op->item + 1)};
	uint32_t kept = capture->count - 1, place;
	bool is_read = op->flags & SOSC_OP_NAMES_READ && sosc_capture_is_read(capture, op);

	if (capture->at_exit || !capture->count)
		return;
	place = add_list(&list, op->length_arg, is_read);
	if (place >= SOSC_ITEMS_MAX)
		return;
	walk(&arguments, op, kept);
	capture->items[place].size = 8 * list.values;
}

/** Add the next @count words of the va_list at register @arg. Return how many could be read. */
uint32_t sosc_capture_va_words(struct sosc_capture *capture, uint32_t arg, uint32_t count)
{
	struct list list = {.capture = capture};
	uint32_t place = add_list(&list, arg, false);

	if (place >= SOSC_ITEMS_MAX)
		return 0;
	while (list.values < count && !list.is_over)
		(void)listed_word(&list);
	capture->items[place].size = 8 * list.values;
	return list.values;
}
