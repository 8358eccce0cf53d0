// SPDX-License-Identifier: Apache-2.0
// What a printf format names: its strings, and the arguments in vector registers
// and in memory (psABI, section 3.2.3: variable arguments are passed as others).

#include "arch.h"
#include "capture.h"

enum { FORMAT_MAX = 256, STACK_MAX = 16 };

struct arguments {
	struct sosc_capture *capture;
	struct list *list; // where they are; NULL: where they were passed
	uint64_t stack[STACK_MAX];
	uint32_t stack_known; // words of it that could be read, once one was wanted
	bool stack_wanted;
	uint32_t words, floats, memory; // how many of each have been named
	uint8_t item; // number of the next argument in the call
};

static uint32_t stack_known(struct arguments *arguments)
{
	const struct sosc_capture *capture = arguments->capture;

	if (!arguments->stack_wanted)
		arguments->stack_known = (uint32_t)sosc_checked_copy(capture, arguments->stack,
								     (uint64_t)capture->regs->stack,
								     sizeof(arguments->stack)) /
					 8;
	arguments->stack_wanted = true;
	return arguments->stack_known;
}

// ---- a va_list ---------------------------------------------------------------

// What a va_list leads to, and what has been taken from there.
struct list {
	struct sosc_capture *capture;
	struct sosc_va_list next;
	union sosc_wide *room;
	uint32_t saved_known, memory_known; // bytes that could be read
	uint32_t memory; // bytes of it that have been taken
	uint32_t values; // words
	bool memory_wanted;
	bool is_over; // the next one cannot be read, or there is no room for it
};

static void read_list(struct list *list, uint64_t from)
{
	const struct sosc_capture *capture = list->capture;
	const struct sosc_va_list *next = &list->next;
	uint32_t start = SOSC_SAVED_INTEGERS;

	list->is_over = sosc_checked_copy(capture, &list->next, from, sizeof(list->next)) !=
				sizeof(list->next) ||
			next->integers % 8;
	if (list->is_over)
		return;
	if (next->integers < SOSC_SAVED_INTEGERS)
		start = next->integers;
	list->saved_known =
		start + (uint32_t)sosc_checked_copy(capture, (uint8_t *)list->room->saved + start,
						    next->saved + start, SOSC_SAVED_SIZE - start);
}

// Keeps @count words, which are @bytes behind @from; @known of those could be read.
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
		list->memory_known = (uint32_t)sosc_checked_copy(list->capture, list->room->memory,
								 list->next.memory,
								 sizeof(list->room->memory));
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

	// who takes no numbers of this kind does not always say where they are
	list->is_over |= !is_long && (at % 8 || at < SOSC_SAVED_INTEGERS);
	if (is_long) { // aligned in memory
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
	else if (is_long) // 16 bytes in memory
		arguments->memory = (arguments->memory + 1) / 2 * 2 + 2;
	else if (arguments->floats < SOSC_FLOAT_ARGUMENTS)
		arguments->floats++;
	else
		arguments->memory++;
	arguments->item++;
}

static void add_string(struct arguments *arguments, uint64_t from, uint32_t precision)
{
	uint32_t limit = sosc_control->string_limit;
	// checked: the function may fail before it comes to them, and scanf writes there
	struct sosc_item item = {
		.from = from, .kind = SOSC_DATA_STRING, .item = arguments->item, .checked = true};

	if (arguments->list && arguments->list->is_over)
		return;
	if (!from) {
		item.flags = SOSC_DATA_NULL;
	} else if (precision) { // printf reads nothing where it is 0
		// with a precision the string need not end
		uint32_t most = precision < limit ? precision : limit + 1;

		sosc_capture_string(arguments->capture, &item, most - 1);
		if (item.size > limit && precision > limit) {
			item.size = limit;
			item.flags |= SOSC_DATA_TRUNCATED;
		}
	}
	sosc_capture_add(arguments->capture, item);
}

static bool is_one_of(char c, const char *set)
{
	for (; *set; set++)
		if (*set == c)
			return true;
	return false;
}

// A star behind the point is the precision; a negative one is none.
static uint32_t star(uint32_t precision, uint64_t word)
{
	if (precision)
		return precision; // it was a width
	return (int32_t)word < 0 ? UINT32_MAX : (uint32_t)word;
}

// One conversion, behind its percent sign; returns what follows it.
static const char *convert(struct arguments *arguments, const char *at)
{
	uint32_t precision = UINT32_MAX;
	bool is_long = false, is_wide = false;
	uint64_t word;

	while (*at && is_one_of(*at, "-+ #0'I"))
		at++;
	for (; (*at >= '0' && *at <= '9') || *at == '*' || *at == '.' || *at == '$'; at++) {
		if (*at == '$')
			return NULL; // numbered arguments: come in any order
		if (*at == '.')
			precision = 0;
		else if (*at == '*')
			precision = star(precision, next_word(arguments));
		else if (precision != UINT32_MAX)
			precision = precision * 10 + (uint32_t)(*at - '0');
	}
	for (; is_one_of(*at, "hlLqjzt") && *at; at++) {
		is_long |= *at == 'L';
		is_wide |= *at == 'l';
	}
	if (is_one_of(*at, "diouxXcCpn") && *at) {
		(void)next_word(arguments);
	} else if (is_one_of(*at, "aAeEfFgG") && *at) {
		next_float(arguments, is_long);
	} else if (*at == 's' && !is_wide) {
		uint8_t item = arguments->item;

		word = next_word(arguments);
		arguments->item = item;
		add_string(arguments, word, precision);
		arguments->item++;
	} else if (*at == 's' || *at == 'S') {
		(void)next_word(arguments);
	} else if (*at != '%' && *at != 'm') {
		return NULL; // not known: what follows cannot be told apart
	}
	return at + 1;
}

// Walks through the format at register op->arg.
static void walk(struct arguments *arguments, const struct sosc_op *op)
{
	struct sosc_capture *capture = arguments->capture;
	struct sosc_item item = {
		.from = op->arg < SOSC_REGISTER_ARGUMENTS ? capture->words[op->arg] : 0,
		.checked = !sosc_capture_is_read(capture, op)};
	char format[FORMAT_MAX];

	if (!item.from)
		return;
	sosc_capture_string(capture, &item, FORMAT_MAX - 2);
	if (!item.size || sosc_capture_copy(capture, format, &item) != item.size)
		return;
	format[item.size] = 0;
	for (const char *at = format; at && *at;)
		at = *at == '%' ? convert(arguments, at + 1) : at + 1;
}

/** Add what the format at register op->arg asks for, behind the format itself. */
void sosc_capture_format(struct sosc_capture *capture, const struct sosc_op *op)
{
	struct arguments arguments = {
		.capture = capture, .words = op->arg + 1u, .item = (uint8_t)(op->item + 1)};

	if (capture->at_exit)
		return;
	walk(&arguments, op);
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

// The item with the values of @list, which is at register @arg; SOSC_ITEMS_MAX: it cannot be read.
static uint32_t add_list(struct list *list, uint32_t arg)
{
	struct sosc_capture *capture = list->capture;
	uint32_t place = capture->count;
	uint64_t from;

	list->room = capture->wide;
	if (!list->room || !sosc_capture_word(capture, arg, &from))
		return SOSC_ITEMS_MAX;
	read_list(list, from);
	if (list->is_over)
		return SOSC_ITEMS_MAX;
	sosc_capture_add(capture, (struct sosc_item){.from = (uint64_t)list->room->values,
						     .kind = SOSC_DATA_BYTES,
						     .item = SOSC_ITEM_VALUES});
	return place;
}

/** As sosc_capture_format, where the values are in the va_list at register op->length_arg. */
void sosc_capture_va_format(struct sosc_capture *capture, const struct sosc_op *op)
{
	struct list list = {.capture = capture};
	struct arguments arguments = {
		.capture = capture, .list = &list, .item = (uint8_t)(op->item + 1)};
	uint32_t place = add_list(&list, op->length_arg);

	if (place >= SOSC_ITEMS_MAX)
		return;
	walk(&arguments, op);
	capture->items[place].size = 8 * list.values;
}

/** Add the next op->limit words of the va_list at register op->arg, as far as they are there. */
void sosc_capture_va_words(struct sosc_capture *capture, const struct sosc_op *op)
{
	struct list list = {.capture = capture};
	uint32_t place = add_list(&list, op->arg);

	if (place >= SOSC_ITEMS_MAX)
		return;
	while (list.values < op->limit && !list.is_over)
		(void)listed_word(&list);
	capture->items[place].size = 8 * list.values;
}
