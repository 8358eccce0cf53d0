// SPDX-License-Identifier: Apache-2.0
// Runs capture programs: what a call's record keeps besides the first argument.
//
// A program is run twice: once to measure, and once to write, when the room is reserved. A string
// that another thread changes in between is cut or padded, never overrun.

#include "trace/capture.h"
#include "base/arch.h"
#include "base/memory.h"
#include "thread/park.h"
#include "thread/thread.h"

enum {
	PIECES = 32, // units that are filled by one system call
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/**
 * Return whether memory can certainly be read: it is in a page that the function itself reads, or
 * in the page of the stack pointer. An address at which no program has memory is checked in any
 * case, because the last call before a crash has to be recorded.
 */
bool sosc_capture_is_there(const struct sosc_capture *capture, uint64_t from, uint64_t size,
			   bool is_read)
{
	uint64_t page = from / SOSC_PAGE;

	if (!sosc_capture_may_be(from))
		return false;
	return (is_read || page == (uint64_t)&capture->regs->ret / SOSC_PAGE) &&
	       (from + size - 1) / SOSC_PAGE == page;
}

/** Copy at most @size bytes from the target's @from. Return how many could be read. */
uint64_t sosc_checked_copy(const struct sosc_capture *capture, void *to, uint64_t from,
			   uint64_t size)
{
	if (sosc_capture_is_there(capture, from, size, false)) {
		memcpy(to, (const void *)from, size);
		return size;
	}
	if (sosc_is_sealed(capture->thread))
		return 0;
	return sosc_read(capture->thread->tid, to, from, size);
}

/** Copy an item that was measured. Return how many bytes could be read. */
uint64_t sosc_capture_copy(const struct sosc_capture *capture, void *to,
			   const struct sosc_item *item)
{
	if (item->checked)
		return sosc_checked_copy(capture, to, item->from, item->size);
	memcpy(to, (const void *)item->from, item->size);
	return item->size;
}

// Reads a word of the arguments on the stack. After the call the function may have overwritten
// these words.
static bool stack_word(const struct sosc_capture *capture, uint32_t arg, uint64_t *ret)
{
	uint64_t from = (uint64_t)&capture->regs->stack[arg - SOSC_ARG_STACK];

	if (!capture->at_exit)
		return sosc_checked_copy(capture, ret, from, sizeof(*ret)) == sizeof(*ret);
	for (uint32_t i = 0; i < capture->stack_count; i++)
		if (capture->stack_args[i] == arg) {
			*ret = capture->stack_words[i];
			return true;
		}
	return false;
}

/** Return the word that sosc_op.arg selects. Return false if it was not kept since the entry. */
bool sosc_capture_word(const struct sosc_capture *capture, uint32_t arg, uint64_t *ret)
{
	if (arg == SOSC_ARG_RESULT)
		*ret = capture->result;
	else if (arg < SOSC_REGISTER_ARGUMENTS && capture->known >> arg & 1)
		*ret = capture->words[arg];
	else if (arg >= SOSC_ARG_STACK && arg < SOSC_ARG_STACK_END)
		return stack_word(capture, arg, ret);
	else
		return false;
	return true;
}

// Reads the int at @from. Returns false if it cannot be read.
bool sosc_capture_int(const struct sosc_capture *capture, uint64_t from, uint32_t *ret)
{
	return from && sosc_checked_copy(capture, ret, from, sizeof(*ret)) == sizeof(*ret);
}

// Returns a length of at least 0. If the argument is an int, the upper half of its register is
// undefined.
static uint64_t as_length(uint64_t word, bool is_int)
{
	if (is_int)
		return (int32_t)word > 0 ? (uint32_t)word : 0;
	return word;
}

// Computes the length of the memory of @op. Returns false if it is not known.
static bool length_of(const struct sosc_capture *capture, const struct sosc_op *op, uint64_t *ret)
{
	bool is_int = op->flags & SOSC_OP_INT_LENGTH;
	uint64_t result = op->flags & SOSC_OP_INT_RESULT ? (uint64_t)(int32_t)capture->result :
							   capture->result;
	uint64_t a = 0, b;
	uint32_t now;

	if ((int64_t)result < 0)
		result = 0;
	if (op->length != SOSC_LENGTH_LIMIT && op->length != SOSC_LENGTH_RESULT &&
	    !sosc_capture_word(capture, op->length_arg, &a))
		return false;
	*ret = UINT64_MAX;
	switch (op->length) {
	case SOSC_LENGTH_ARG:
		*ret = as_length(a, is_int);
		break;
	case SOSC_LENGTH_PRODUCT:
		if (!sosc_capture_word(capture, op->length_arg + 1u, &b))
			return false;
		if (__builtin_mul_overflow(a, b, ret))
			*ret = UINT64_MAX;
		break;
	case SOSC_LENGTH_RESULT:
		*ret = result;
		break;
	case SOSC_LENGTH_RESULT_PRODUCT:
		if (__builtin_mul_overflow(a, result, ret))
			*ret = UINT64_MAX;
		break;
	case SOSC_LENGTH_RESULT_ARG:
		*ret = smaller(result, as_length(a, is_int));
		break;
	case SOSC_LENGTH_AT:
		if (op->length_arg >= SOSC_REGISTER_ARGUMENTS ||
		    !(capture->known >> (SOSC_KEPT_INT + op->length_arg) & 1) ||
		    !sosc_capture_int(capture, a, &now))
			return false;
		*ret = smaller(as_length(capture->before[op->length_arg], true),
			       as_length(now, true));
		break;
	default:
		break;
	}
	return true;
}

void sosc_capture_floats(struct sosc_capture *capture)
{
	sosc_float_arguments(capture->floats);
}

/** Add the first @count words of the arguments on the stack. */
void sosc_capture_stack(struct sosc_capture *capture, uint32_t count)
{
	struct sosc_item item = {.from = (uint64_t)capture->regs->stack,
				 .size = 8u * count,
				 .kind = SOSC_DATA_STACK};

	item.checked = !sosc_capture_is_there(capture, item.from, item.size, false);
	sosc_capture_add(capture, item);
}

/** Return whether the function itself reads the first byte of the memory of @op. */
bool sosc_capture_is_read(const struct sosc_capture *capture, const struct sosc_op *op)
{
	uint64_t length;

	if (!(op->flags & SOSC_OP_IS_READ) || !capture->of_libc)
		return false;
	if (op->op == SOSC_OP_BYTES ?
		    op->flags & SOSC_OP_UNLESS_SAME && capture->words[0] == capture->words[1] :
		    op->flags & SOSC_OP_UNLESS_NEGATIVE && (int32_t)capture->result < 0)
		return false;
	return !(op->flags & SOSC_OP_UNLESS_0) ||
	       (sosc_capture_word(capture, op->length_arg, &length) &&
		as_length(length, op->flags & SOSC_OP_INT_LENGTH));
}

// Reads address and length of a std::string's text, which are the first two words of the string at
// @at.
static bool text_at(const struct sosc_capture *capture, uint64_t at, uint64_t *from,
		    uint64_t *length)
{
	uint64_t words[2];

	if (sosc_checked_copy(capture, words, at, sizeof(words)) != sizeof(words) || !words[0])
		return false;
	*from = words[0];
	*length = words[1];
	return true;
}

// Reads the address of a string, which is stored at @at.
static bool string_at(const struct sosc_capture *capture, uint64_t at, uint64_t *from)
{
	return sosc_checked_copy(capture, from, at, sizeof(*from)) == sizeof(*from) && *from;
}

static void add_memory(struct sosc_capture *capture, const struct sosc_op *op)
{
	uint32_t limit = op->limit ? op->limit : sosc_session->string_limit;
	uint64_t from = 0, length = 0;
	bool known = sosc_capture_word(capture, op->arg, &from) &&
		     (!from || length_of(capture, op, &length));
	bool checked = !sosc_capture_is_read(capture, op);
	struct sosc_item item = {.from = from, .item = op->item, .checked = checked};

	if (known && from && op->flags & SOSC_OP_TEXT_AT) {
		known = op->op == SOSC_OP_STRING ? string_at(capture, from, &from) :
						   text_at(capture, from, &from, &length);
		item.from = from;
	}
	if (limit > SOSC_BYTES_MAX)
		limit = SOSC_BYTES_MAX;
	item.kind = op->op == SOSC_OP_WORD_AT ? SOSC_DATA_WORD_AT :
		    op->op == SOSC_OP_BYTES   ? SOSC_DATA_BYTES :
						SOSC_DATA_STRING;
	if (!known) {
		item.flags = SOSC_DATA_UNREADABLE;
	} else if (!from) {
		item.flags = SOSC_DATA_NULL;
	} else if (item.kind == SOSC_DATA_WORD_AT) {
		item.size = 8;
	} else if (item.kind == SOSC_DATA_BYTES) {
		item.size = length > limit ? limit + 1 : (uint32_t)length;
	} else if (op->flags & SOSC_OP_WCHAR) {
		limit = 4 * (uint32_t)smaller(limit, SOSC_WCHARS_MAX);
		length = smaller(length, SOSC_BYTES_MAX) * 4;
		sosc_capture_wchars(capture, &item, (uint32_t)smaller(length, limit + 4));
	} else if (length) { // with a length, the string need not end with a NUL
		sosc_capture_string(capture, &item, length <= limit ? (uint32_t)length - 1 : limit);
	}
	if (item.kind != SOSC_DATA_WORD_AT && item.size > limit) {
		item.size = limit;
		item.flags |= SOSC_DATA_TRUNCATED;
	}
	if (item.kind != SOSC_DATA_STRING)
		item.checked = !sosc_capture_is_there(capture, from, item.size, !checked);
	sosc_capture_add(capture, item);
}

/**
 * Return whether the condition at @at holds: the value is in one of the ranges behind @at. @op is
 * the op at @at.
 */
static bool holds(const struct sosc_capture *capture, const struct sosc_op *op,
		  const struct sosc_op *at)
{
	uint64_t word;

	if (!sosc_capture_word(capture, op->arg, &word))
		return false;
	if (op->flags & SOSC_OP_INT_ARG)
		word = (uint32_t)word;
	for (uint32_t i = 1; i <= op->limit; i++) {
		struct sosc_values range = sosc_program_word(at + i).range;

		if (op->flags & SOSC_OP_ANY_BIT ? word & range.first :
						  word >= range.first && word <= range.last)
			return true;
	}
	return false;
}

static __attribute__((noinline)) void add_vectors(struct sosc_capture *capture,
						  const struct sosc_op *op)
{
	struct sosc_item item = {.kind = SOSC_DATA_BYTES, .item = SOSC_ITEM_VECTORS};
	uint32_t count = op->arg < SOSC_FLOAT_ARGUMENTS ? op->arg : SOSC_FLOAT_ARGUMENTS;
	uint8_t vectors[SOSC_VECTORS_SIZE];

	if (capture->at_exit) { // no other op uses `floats` then
		item.item = op->item;
		item.size = (uint32_t)smaller(op->limit, sizeof(capture->floats));
		item.from = (uint64_t)capture->floats;
		if (sosc_vectors(vectors, op->limit))
			memcpy(capture->floats, vectors, item.size);
		else
			item.size = 0;
	} else if (capture->wide && sosc_vectors(capture->wide->vectors, op->limit)) {
		item.from = (uint64_t)capture->wide->vectors;
		item.size = count * op->limit;
	}
	if (!item.size)
		item.flags = SOSC_DATA_UNREADABLE;
	sosc_capture_add(capture, item);
}

void sosc_capture_measure(struct sosc_capture *capture, const struct sosc_op *at)
{
	bool floats = false;

	for (;; at++) {
		const union sosc_program_word word = sosc_program_word(at);
		const struct sosc_op *op = &word.op;
		struct sosc_item item = {.item = op->item};

		switch (op->op) {
		case SOSC_OP_END:
			return;
		case SOSC_OP_WORDS: // the first word is in the record itself
			if (op->arg > 1)
				sosc_capture_add(
					capture,
					(struct sosc_item){.from = (uint64_t)&capture->words[1],
							   .size = 8u * (op->arg - 1u),
							   .kind = SOSC_DATA_WORDS,
							   .item = 1});
			break;
		case SOSC_OP_STACK:
			item = (struct sosc_item){.from = (uint64_t)capture->regs->stack,
						  .size = 8u * op->arg,
						  .kind = SOSC_DATA_STACK};
			item.checked = !sosc_capture_is_there(capture, item.from, item.size, false);
			sosc_capture_add(capture, item);
			break;
		case SOSC_OP_FLOAT:
			if (!floats)
				sosc_capture_floats(capture);
			floats = true;
			item = (struct sosc_item){.from = (uint64_t)capture->floats,
						  .size = capture->at_exit ? 8u : 8u * op->arg,
						  .kind = SOSC_DATA_FLOATS};
			sosc_capture_add(capture, item);
			break;
		case SOSC_OP_FORMAT:
			add_memory(capture, op);
			sosc_capture_format(capture, op);
			break;
		case SOSC_OP_VA_FORMAT:
			add_memory(capture, op);
			sosc_capture_va_format(capture, op);
			break;
		case SOSC_OP_SCANF:
		case SOSC_OP_VA_SCANF:
			add_memory(capture, op);
			sosc_capture_scanf(capture, op);
			break;
		case SOSC_OP_FILLED:
			sosc_capture_filled(capture);
			break;
		case SOSC_OP_VECTOR:
			add_vectors(capture, op);
			break;
		case SOSC_OP_ERRNO:
			sosc_capture_add(capture,
					 (struct sosc_item){.from = (uint64_t)&capture->error,
							    .size = sizeof(capture->error),
							    .kind = SOSC_DATA_BYTES,
							    .item = SOSC_ITEM_ERRNO});
			break;
		case SOSC_OP_RESULT: // no other op uses `floats` then
			sosc_results(capture->regs, capture->floats);
			item = (struct sosc_item){.from = (uint64_t)capture->floats,
						  .size = op->limit,
						  .kind = SOSC_DATA_BYTES,
						  .item = op->item};
			if (item.size > sizeof(capture->floats))
				item.size = sizeof(capture->floats);
			sosc_capture_add(capture, item);
			break;
		case SOSC_OP_WHEN:
			at += op->limit + (holds(capture, op, at) ? 0 : op->item);
			break;
		case SOSC_OP_STRING:
			if (!sosc_capture_read_string(capture, &word))
				add_memory(capture, op);
			break;
		case SOSC_OP_BYTES:
		case SOSC_OP_WORD_AT:
			add_memory(capture, op);
			break;
		default:
			break;
		}
	}
}

/** Compute capture->total. Items that do not fit into SOSC_TOTAL_MAX are cut off. */
void sosc_capture_total(struct sosc_capture *capture)
{
	uint32_t bytes = SOSC_UNIT;

	capture->is_long = false;
	for (uint32_t i = 0; i < capture->count; i++) {
		struct sosc_item *item = &capture->items[i];

		if (bytes + sosc_units_of(item) * SOSC_UNIT > SOSC_TOTAL_MAX) {
			item->size = 0;
			item->flags |= SOSC_DATA_TRUNCATED;
		}
		bytes += sosc_units_of(item) * SOSC_UNIT;
		capture->is_long |= item->size >= SOSC_LONG;
	}
	capture->total = bytes;
}

// Returns whether the units still belong to this process, and not to its parent, which goes on.
static bool are_ours(const struct sosc_capture *capture)
{
	return sosc_process() == capture->process;
}

// Copies at most @size bytes from the target's @from into the payloads of @unit and the following
// units. Returns how many could be read.
static __attribute__((noinline)) uint32_t checked_units(const struct sosc_capture *capture,
							struct sosc_data *unit, uint64_t from,
							uint32_t size)
{
	uint8_t few[PIECES * sizeof(unit->payload)], *bytes = few;
	struct sosc_scratch *scratch = NULL;
	uint64_t room = sizeof(few);
	uint32_t done = 0;

	if (size > sizeof(few))
		scratch = sosc_scratch_take(capture->thread);
	if (scratch) {
		bytes = scratch->bytes;
		room = sizeof(scratch->bytes);
	}
	while (done < size) {
		uint64_t wanted = smaller(size - done, room);
		uint64_t got = sosc_checked_copy(capture, bytes, from + done, wanted);

		for (uint64_t at = 0; at < got && are_ours(capture);
		     at += sizeof(unit->payload), unit++)
			memcpy(unit->payload, bytes + at, smaller(got - at, sizeof(unit->payload)));
		done += (uint32_t)got;
		if (got < wanted)
			break;
	}
	if (scratch)
		sosc_scratch_give(scratch);
	return done;
}

/**
 * Write what was measured, starting at @unit. Return false if a signal handler has forked and this
 * is the child: the units belong to its parent, which may have handed them over long ago.
 */
bool sosc_capture_write(const struct sosc_capture *capture, struct sosc_data *unit)
{
	for (uint32_t i = 0; i < capture->count; i++) {
		const struct sosc_item *item = &capture->items[i];
		uint32_t left = item->size, units = sosc_units_of(item);
		uint32_t kind = item->kind;
		uint8_t flags = item->flags;

		if (!item->checked && left <= sizeof(unit->payload)) { // the most frequent case
			if (!are_ours(capture))
				return false;
			sosc_copy_few(unit->payload, (const void *)item->from, left);
			unit->aux = flags;
			unit->commit = (uint32_t)SOSC_UNIT_DATA << 28 | kind << 24 |
				       (uint32_t)item->item << 16 | left;
			unit++;
			continue;
		}
		if (item->checked && left) {
			left = checked_units(capture, unit, item->from, left);
			if (!left)
				flags |= SOSC_DATA_UNREADABLE;
			else if (left < item->size)
				flags |= SOSC_DATA_TRUNCATED;
		}
		for (uint32_t u = 0; u < units; u++, unit++) {
			uint32_t size = left > 24 ? 24 : left;

			if (!are_ours(capture))
				return false;
			if (!item->checked)
				sosc_copy_few(unit->payload, (const void *)(item->from + u * 24ull),
					      size);
			unit->aux = flags;
			unit->commit = (uint32_t)SOSC_UNIT_DATA << 28 | kind << 24 |
				       (uint32_t)item->item << 16 | left;
			left -= size;
			kind = SOSC_DATA_MORE;
		}
	}
	return are_ours(capture);
}
