// SPDX-License-Identifier: Apache-2.0
// What functions of the scanf family store. At the entry, the format tells where and what they will
// store. At the return, the result tells how much of it was stored. The format's memory may have
// changed by then.

#include "base/arch.h"
#include "call/cell.h"
#include "call/site.h"
#include "thread/park.h"
#include "thread/thread.h"
#include "trace/capture.h"

enum {
	STACK_MAX = 16, // words of arguments on the stack
	POSITION_MAX = 64,
	WIDTH_MAX = SOSC_BYTES_MAX,
	WCHAR = 4, // bytes
};

enum size { INT, CHAR, SHORT, LONG, LONG_LONG, LONG_DOUBLE, OTHER };

struct walk {
	struct sosc_fill *fills; // `to` is the position of the argument, counted from 1
	uint32_t count;
	uint32_t last; // position of the last argument that was used in order
	uint32_t most; // highest position
	uint64_t named; // a bit for each position that is used
	uint8_t counted; // number of conversions that count in the result
	bool is_behind; // a %n would follow directly after such a conversion
	bool is_wide;
	bool is_cut; // the format continues beyond what is known
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static uint32_t number(const char **at)
{
	uint32_t value = 0;

	for (; is_digit(**at); ++*at)
		if (value < WIDTH_MAX)
			value = value * 10 + (uint32_t)(**at - '0');
	return value;
}

static enum size size_of(const char **at)
{
	char first = **at;

	switch (first) {
	case 'h':
	case 'l':
		if (*++*at != first)
			return first == 'h' ? SHORT : LONG;
		++*at;
		return first == 'h' ? CHAR : LONG_LONG;
	case 'L':
		++*at;
		return LONG_DOUBLE;
	case 'q':
	case 'j':
	case 'z':
	case 't':
		++*at;
		return OTHER; // integers of 8 bytes; unknown for other types
	default:
		return INT;
	}
}

// Returns the position behind the bracket that ends a set.
static const char *behind_set(const char *at)
{
	if (*at == '^')
		at++;
	if (*at)
		at++; // a bracket in the first place is a member
	while (*at && *at != ']')
		at++;
	return *at ? at + 1 : NULL;
}

// Returns the bytes that an integer conversion stores, or 0 if unknown. For `%Ld` glibc stores a
// long long and musl stores nothing, and both count it.
static uint32_t bytes_of_integer(enum size size)
{
	static const uint8_t bytes[] = {
		[INT] = 4,	 [CHAR] = 1,	    [SHORT] = 2, [LONG] = 8,
		[LONG_LONG] = 8, [LONG_DOUBLE] = 0, [OTHER] = 8,
	};

	return bytes[size];
}

// Returns the bytes of a float, of a double, or the used bytes of a long double, or 0 if unknown.
static uint32_t bytes_of_real(enum size size)
{
	return size == INT ? 4 : size == LONG ? 8 : size == LONG_DOUBLE ? 10 : 0;
}

// Completes @fill for the conversion @letter. `size` has the width on entry. Returns false if it is
// unknown what is stored.
static bool is_known(struct sosc_fill *fill, char letter, enum size size, bool is_wide)
{
	bool wide = size == LONG || letter == 'S' || letter == 'C';
	bool is_text = letter == 's' || letter == 'S' || letter == '[' || letter == 'c' ||
		       letter == 'C';

	if (is_text && size != INT && size != LONG)
		return false;
	if (fill->is_allocated && !is_text)
		return false;
	switch (letter) {
	case 'd':
	case 'i':
	case 'o':
	case 'u':
	case 'x':
	case 'X':
	case 'b':
		fill->kind = SOSC_FILL_NUMBER;
		fill->size = bytes_of_integer(size);
		return true;
	case 'p':
		fill->kind = SOSC_FILL_NUMBER;
		fill->size = sizeof(uint64_t);
		return true;
	case 'n':
		fill->kind = SOSC_FILL_READ;
		fill->size = bytes_of_integer(size);
		return true;
	case 'a':
	case 'A':
	case 'e':
	case 'E':
	case 'f':
	case 'F':
	case 'g':
	case 'G':
		fill->kind = SOSC_FILL_NUMBER;
		fill->size = bytes_of_real(size);
		return fill->size;
	case 's':
	case 'S':
	case '[':
		fill->kind = wide ? SOSC_FILL_WIDE : SOSC_FILL_STRING;
		fill->size = 1; // at least the NUL
		return true;
	case 'c':
	case 'C':
		fill->kind = wide ? SOSC_FILL_WIDE_CHARACTERS : SOSC_FILL_CHARACTERS;
		fill->size = (fill->size ? fill->size : 1) * (wide ? WCHAR : 1);
		// the number of bytes after conversion to multibyte characters is unknown
		if (is_wide && !wide)
			fill->size = 0;
		return true;
	default:
		return false;
	}
}

// Notes that a conversion stores to the argument at @position, or to the next one if that is 0.
// Returns false if the following arguments cannot be determined.
static bool note(struct walk *walk, struct sosc_fill fill, uint32_t position)
{
	if (!position)
		position = ++walk->last;
	if (position > POSITION_MAX || walk->named >> (position - 1) & 1)
		return false;
	walk->named |= (uint64_t)1 << (position - 1);
	if (position > walk->most)
		walk->most = position;
	fill.to = position;
	if (fill.kind == SOSC_FILL_READ) {
		fill.is_behind = walk->is_behind;
	} else {
		walk->counted++;
		walk->is_behind = true;
	}
	fill.counted = walk->counted;
	if (walk->count < SOSC_FILLS_MAX)
		walk->fills[walk->count++] = fill;
	return true;
}

// Parses one conversion after its percent sign. Returns what follows it.
static const char *convert(struct walk *walk, const char *at)
{
	bool is_suppressed = false;
	struct sosc_fill fill = {0};
	uint32_t position = 0;
	enum size size;
	char letter;

	if (*at == '%') {
		walk->is_behind = false;
		return at + 1;
	}
	if (is_digit(*at)) {
		fill.size = number(&at);
		if (*at == '$') {
			at++;
			position = fill.size;
			fill.size = 0;
			if (!position)
				return NULL;
		}
	}
	for (; !fill.size && (*at == '*' || *at == '\'' || *at == 'I'); at++)
		is_suppressed |= *at == '*';
	if (!fill.size)
		fill.size = number(&at);
	if (*at == 'm') {
		fill.is_allocated = true;
		at++;
	}
	size = size_of(&at);
	letter = *at++;
	if (letter == 'a' && (*at == 's' || *at == 'S' || *at == '[' || (!*at && walk->is_cut)))
		return NULL; // in old C libraries `a` is a modifier
	if (!is_known(&fill, letter, size, walk->is_wide))
		return NULL;
	if (letter == '[')
		at = behind_set(at);
	if (is_suppressed)
		walk->is_behind = false;
	else if (at && !note(walk, fill, position))
		return NULL;
	return at;
}

static void walk_through(struct walk *walk, const char *at)
{
	while (at && *at) {
		if (*at == '%') {
			at = convert(walk, at + 1);
			continue;
		}
		walk->is_behind &= is_space(*at);
		at++;
	}
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// Returns the number of bytes that show whether all was stored, because they change only then. For
// several characters it is the last one, because glibc counts the conversion even if the input had
// less. Returns 0 if no bytes have to be compared.
static uint32_t telling(const struct sosc_fill *fill)
{
	switch (fill->kind) {
	case SOSC_FILL_READ:
		return fill->is_behind ? 0 : (uint32_t)smaller(fill->size, 4);
	case SOSC_FILL_CHARACTERS:
		return fill->size > 1;
	case SOSC_FILL_WIDE_CHARACTERS:
		return fill->size > WCHAR ? WCHAR : 0;
	default:
		return 0;
	}
}

// Reads these bytes.
static uint32_t told(const struct sosc_capture *capture, const struct sosc_fill *fill)
{
	uint32_t value = 0, size = telling(fill);
	uint64_t from = fill->to + (fill->kind == SOSC_FILL_READ ? 0 : fill->size - size);

	(void)sosc_checked_copy(capture, &value, from, size);
	return value;
}

/**
 * Add the pointers after the format that @op has kept as the last item. What they point to is kept
 * for sosc_capture_filled.
 */
void sosc_capture_scanf(struct sosc_capture *capture, const struct sosc_op *op)
{
	uint64_t sp = (uint64_t)&capture->regs->ret, stack[STACK_MAX];
	uint64_t cell = (uint64_t)sosc_entered_by(capture->regs);
	struct walk walk = {.is_wide = op->flags & SOSC_OP_WCHAR};
	uint32_t before_them = op->arg + 1u, known = 0, size;
	const uint64_t *words = capture->words, *memory = stack;
	char format[SOSC_FORMAT_MAX];
	struct sosc_filling *filling;
	struct sosc_fill spare[SOSC_FILLS_MAX];

	if (capture->at_exit || !capture->count)
		return;
	filling = sosc_filling_place(capture->thread, sp, cell);
	walk.fills = filling ? filling->fills : spare;
	size = sosc_capture_copy_format(capture, op, capture->count - 1, format);
	walk.is_cut = size == SOSC_FORMAT_MAX - 1;
	if (size)
		walk_through(&walk, format);
	if (op->op == SOSC_OP_VA_SCANF) {
		before_them = SOSC_REGISTER_ARGUMENTS;
		known = sosc_capture_va_words(capture, op->length_arg, walk.most);
		memory = known ? capture->wide->values : NULL;
	} else if (before_them + walk.most > SOSC_REGISTER_ARGUMENTS) {
		known = before_them + walk.most - SOSC_REGISTER_ARGUMENTS;
		known = (uint32_t)smaller(known, STACK_MAX);
		known = (uint32_t)sosc_checked_copy(capture, stack, (uint64_t)capture->regs->stack,
						    known * sizeof(*stack)) /
			sizeof(*stack);
		if (known)
			sosc_capture_stack(capture, known);
	}
	if (!filling)
		return; // the return reports that nothing was kept
	for (uint32_t i = 0; i < walk.count; i++) {
		struct sosc_fill *fill = &filling->fills[i];
		uint64_t at = before_them + fill->to - 1;

		fill->item = (uint8_t)(op->item + fill->to);
		if (at < SOSC_REGISTER_ARGUMENTS)
			fill->to = words[at];
		else if (at - SOSC_REGISTER_ARGUMENTS < known)
			fill->to = memory[at - SOSC_REGISTER_ARGUMENTS];
		else
			fill->to = 0;
		if (fill->to && telling(fill) && !fill->is_allocated)
			fill->before = told(capture, fill);
	}
	filling->count = walk.count;
	__atomic_store_n(&filling->sp, sp, __ATOMIC_RELEASE);
}

// Returns whether a call that returned @result has stored what @fill describes.
static bool is_stored(const struct sosc_capture *capture, const struct sosc_fill *fill,
		      int32_t result)
{
	if (!fill->to || !fill->size)
		return false;
	if (result > fill->counted) // a later conversion was stored, so this one was, too
		return true;
	if (result != fill->counted && !(result < 0 && !fill->counted))
		return false;
	if (!telling(fill))
		return true;
	return !fill->is_allocated && told(capture, fill) != fill->before;
}

// Returns the most bytes of a text that are kept.
static uint32_t limit_of(const struct sosc_fill *fill)
{
	uint64_t limit = sosc_session->string_limit;

	if (fill->kind == SOSC_FILL_WIDE || fill->kind == SOSC_FILL_WIDE_CHARACTERS)
		return WCHAR * (uint32_t)smaller(limit, SOSC_WCHARS_MAX);
	return (uint32_t)smaller(limit, SOSC_BYTES_MAX);
}

static void add_stored(struct sosc_capture *capture, const struct sosc_fill *fill)
{
	struct sosc_item item = {
		.from = fill->to, .kind = SOSC_DATA_BYTES, .item = fill->item, .checked = true};
	uint32_t limit = limit_of(fill);

	if (fill->is_allocated && sosc_checked_copy(capture, &item.from, fill->to,
						    sizeof(item.from)) != sizeof(item.from))
		return;
	if (!item.from)
		return;
	switch (fill->kind) {
	case SOSC_FILL_STRING:
		item.kind = SOSC_DATA_STRING;
		sosc_capture_string(capture, &item, limit);
		break;
	case SOSC_FILL_WIDE:
		item.kind = SOSC_DATA_STRING;
		sosc_capture_wchars(capture, &item, limit + WCHAR);
		break;
	case SOSC_FILL_CHARACTERS:
	case SOSC_FILL_WIDE_CHARACTERS:
		item.size = fill->size;
		break;
	default:
		item.size = limit = fill->size;
		break;
	}
	if (item.size > limit) {
		item.size = limit;
		item.flags |= SOSC_DATA_TRUNCATED;
	}
	if (item.kind == SOSC_DATA_BYTES)
		item.checked = !sosc_capture_is_there(capture, item.from, item.size, false);
	sosc_capture_add(capture, item);
}

static void drop(void)
{
	__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_WORDS], 1, __ATOMIC_RELAXED);
}

/** Add what a call of scanf, which returns now, has stored. */
void sosc_capture_filled(struct sosc_capture *capture)
{
	const struct sosc_site *site = sosc_returned_to(capture->regs);
	uint64_t sp = (uint64_t)&capture->regs->ret;
	struct sosc_filling *filling = sosc_filling_find(capture->thread, sp, site->cell);
	int32_t result = (int32_t)capture->result;
	uint32_t first = capture->count, number;

	if (!filling) {
		if (result > 0 && !(site->flags & SITE_FLAG_TWICE) && !sosc_thread_inherits(sp))
			drop();
		return;
	}
	number = filling->number;
	for (uint32_t i = 0; i < filling->count; i++)
		if (is_stored(capture, &filling->fills[i], result))
			add_stored(capture, &filling->fills[i]);
	if (filling->number != number || filling->sp != sp) {
		capture->count = first; // a call in a signal handler has taken its place
		drop();
		return;
	}
	if (!(site->flags & SITE_FLAG_TWICE))
		filling->sp = 0;
}
