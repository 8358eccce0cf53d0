// SPDX-License-Identifier: Apache-2.0
// Runs capture programs: what a call's record keeps besides its first word.
//
// A program is run twice over the same ops: once to measure, then, with the room
// reserved, to write. A string that another thread changes in between is cut or
// padded, never overrun.

#include "capture.h"
#include "arch.h"
#include "guard.h"
#include "memory.h"

enum {
	PIECE = 256, // bytes of a checked read
	PIECES = 32, // units that one system call reads for
};

// Copies at most @size bytes from the target's @from; how many could be read.
uint64_t sosc_checked_copy(const struct sosc_capture *capture, void *to, uint64_t from,
			   uint64_t size)
{
	if (sosc_is_sealed(capture->thread))
		return 0;
	return sosc_read(capture->thread->tid, to, from, size);
}

// The length of the string at @from, at most @limit + 1.
uint32_t sosc_string_size(const struct sosc_capture *capture, uint64_t from, uint32_t limit,
			  bool checked, uint8_t *flags)
{
	uint8_t piece[PIECE];
	uint32_t size = 0;

	if (!checked) {
		while (size <= limit && ((const char *)from)[size])
			size++;
		return size;
	}
	while (size <= limit) {
		// never across a page: the next one may not be there
		uint64_t want = SOSC_PAGE - ((from + size) & (SOSC_PAGE - 1));
		uint64_t got, i;

		if (want > PIECE)
			want = PIECE;
		if (want > limit + 1 - size)
			want = limit + 1 - size;
		got = sosc_checked_copy(capture, piece, from + size, want);
		if (!got) {
			*flags |= SOSC_DATA_UNREADABLE;
			return size;
		}
		for (i = 0; i < got; i++, size++)
			if (!piece[i])
				return size;
	}
	return size;
}

// False: the word was not kept from the entry on.
static bool word_of(const struct sosc_capture *capture, uint32_t arg, uint64_t *ret)
{
	if (arg == SOSC_ARG_RESULT)
		*ret = capture->result;
	else if (arg < SOSC_REGISTER_ARGUMENTS && capture->known >> arg & 1)
		*ret = capture->words[arg];
	else
		return false;
	return true;
}

// The int at @from; false: it cannot be read.
bool sosc_capture_int(const struct sosc_capture *capture, uint64_t from, uint32_t *ret)
{
	return from && sosc_checked_copy(capture, ret, from, sizeof(*ret)) == sizeof(*ret);
}

// A register's upper half is anything where its argument is an int. No length is negative.
static uint64_t as_length(uint64_t word, bool is_int)
{
	if (is_int)
		return (int32_t)word > 0 ? (uint32_t)word : 0;
	return word;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// How much of its memory @op is about; false: that is not known.
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
	    !word_of(capture, op->length_arg, &a))
		return false;
	*ret = UINT64_MAX;
	switch (op->length) {
	case SOSC_LENGTH_ARG:
		*ret = as_length(a, is_int);
		break;
	case SOSC_LENGTH_PRODUCT:
		if (!word_of(capture, op->length_arg + 1u, &b))
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
		if (!(capture->known >> (SOSC_KEPT_INT + op->length_arg) & 1) ||
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

void sosc_capture_add(struct sosc_capture *capture, struct sosc_item item)
{
	if (capture->count < SOSC_ITEMS_MAX)
		capture->items[capture->count++] = item;
}

static void add_memory(struct sosc_capture *capture, const struct sosc_op *op)
{
	uint32_t limit = op->limit ? op->limit : sosc_control->string_limit;
	uint64_t from = 0, length = 0;
	bool known = word_of(capture, op->arg, &from) && (!from || length_of(capture, op, &length));
	struct sosc_item item = {
		.from = from, .item = op->item, .checked = !(op->flags & SOSC_OP_MUST_FOLLOW)};

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
	} else if (length) { // with a length, the string need not end
		item.size = sosc_string_size(capture, from,
					     length <= limit ? (uint32_t)length - 1 : limit,
					     item.checked, &item.flags);
	}
	if (item.kind != SOSC_DATA_WORD_AT && item.size > limit) {
		item.size = limit;
		item.flags |= SOSC_DATA_TRUNCATED;
	}
	sosc_capture_add(capture, item);
}

// An op of one piece: the table may be given back under who was interrupted here, when the
// session has ended, and is zeros then.
static struct sosc_op read_op(const struct sosc_op *at)
{
	typedef uint64_t __attribute__((aligned(1))) word;
	union {
		uint64_t word;
		struct sosc_op op;
	} read = {.word = *(const volatile word *)at};

	_Static_assert(sizeof(struct sosc_op) == sizeof(word), "one load");
	return read.op;
}

void sosc_capture_measure(struct sosc_capture *capture, const struct sosc_op *at)
{
	bool floats = false;

	for (;; at++) {
		const struct sosc_op now = read_op(at), *op = &now;
		struct sosc_item item = {.item = op->item};

		switch (op->op) {
		case SOSC_OP_END:
			return;
		case SOSC_OP_WORDS: // the first is in the record itself
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
						  .kind = SOSC_DATA_STACK,
						  .checked = true};
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
		case SOSC_OP_ERRNO:
			sosc_capture_add(capture,
					 (struct sosc_item){.from = (uint64_t)&capture->error,
							    .size = sizeof(capture->error),
							    .kind = SOSC_DATA_BYTES,
							    .item = SOSC_ITEM_ERRNO});
			break;
		case SOSC_OP_STRING:
		case SOSC_OP_BYTES:
		case SOSC_OP_WORD_AT:
			add_memory(capture, op);
			break;
		default:
			break;
		}
	}
}

static uint32_t units_of(const struct sosc_item *item)
{
	return item->size ? (item->size + 23) / 24 : 1;
}

uint32_t sosc_capture_total(struct sosc_capture *capture)
{
	uint32_t bytes = SOSC_UNIT;

	for (uint32_t i = 0; i < capture->count; i++) {
		struct sosc_item *item = &capture->items[i];

		if (bytes + units_of(item) * SOSC_UNIT > SOSC_TOTAL_MAX) {
			item->size = 0;
			item->flags |= SOSC_DATA_TRUNCATED;
		}
		bytes += units_of(item) * SOSC_UNIT;
	}
	return bytes;
}

// Copies at most @size bytes from the target's @from into the payloads of @unit and those
// behind it; how many could be read.
static __attribute__((noinline)) uint32_t checked_units(const struct sosc_capture *capture,
							struct sosc_data *unit, uint64_t from,
							uint32_t size)
{
	uint8_t bytes[PIECES * sizeof(unit->payload)];
	uint32_t done = 0;

	while (done < size) {
		uint64_t wanted = smaller(size - done, sizeof(bytes));
		uint64_t got = sosc_checked_copy(capture, bytes, from + done, wanted);

		for (uint64_t at = 0; at < got; at += sizeof(unit->payload), unit++)
			memcpy(unit->payload, bytes + at, smaller(got - at, sizeof(unit->payload)));
		done += (uint32_t)got;
		if (got < wanted)
			break;
	}
	return done;
}

void sosc_capture_write(const struct sosc_capture *capture, struct sosc_data *unit)
{
	for (uint32_t i = 0; i < capture->count; i++) {
		const struct sosc_item *item = &capture->items[i];
		uint32_t left = item->size, units = units_of(item);
		uint32_t kind = item->kind;
		uint8_t flags = item->flags;

		if (item->checked && left) {
			left = checked_units(capture, unit, item->from, left);
			if (!left)
				flags |= SOSC_DATA_UNREADABLE;
			else if (left < item->size)
				flags |= SOSC_DATA_TRUNCATED;
		}
		for (uint32_t u = 0; u < units; u++, unit++) {
			uint32_t size = left > 24 ? 24 : left;

			if (!item->checked)
				memcpy(unit->payload, (const void *)(item->from + u * 24ull), size);
			unit->aux = flags;
			unit->commit = (uint32_t)SOSC_UNIT_DATA << 28 | kind << 24 |
				       (uint32_t)item->item << 16 | left;
			left -= size;
			kind = SOSC_DATA_MORE;
		}
	}
}
