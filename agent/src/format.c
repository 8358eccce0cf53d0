// SPDX-License-Identifier: Apache-2.0
// What a printf format names: its strings, and the arguments in vector registers
// and in memory (psABI, section 3.2.3: variable arguments are passed as others).

#include "arch.h"
#include "capture.h"

enum { FORMAT_MAX = 256, STACK_MAX = 16 };

struct arguments {
	struct sosc_capture *capture;
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

static uint64_t next_word(struct arguments *arguments)
{
	uint64_t word = 0;

	if (arguments->words < SOSC_REGISTER_ARGUMENTS)
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
	if (is_long) // 16 bytes in memory
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

/** Add what the format at register op->arg asks for, behind the format itself. */
void sosc_capture_format(struct sosc_capture *capture, const struct sosc_op *op)
{
	struct arguments arguments = {
		.capture = capture, .words = op->arg + 1u, .item = (uint8_t)(op->item + 1)};
	struct sosc_item item = {
		.from = op->arg < SOSC_REGISTER_ARGUMENTS ? capture->words[op->arg] : 0,
		.checked = !sosc_capture_is_read(capture, op)};
	char format[FORMAT_MAX];

	if (!item.from || capture->at_exit)
		return;
	sosc_capture_string(capture, &item, FORMAT_MAX - 2);
	if (!item.size || sosc_capture_copy(capture, format, &item) != item.size)
		return;
	format[item.size] = 0;
	for (const char *at = format; at && *at;)
		at = *at == '%' ? convert(&arguments, at + 1) : at + 1;
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
