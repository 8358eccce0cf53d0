// SPDX-License-Identifier: Apache-2.0
// Strings that capture programs keep: their lengths, with checks for strings that continue into
// unmapped memory.

#include "base/arch.h"
#include "base/memory.h"
#include "trace/capture.h"

enum {
	PIECE = 256, // bytes of a checked read
	FEW_STRINGS = 3,
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// Returns how many of @size bytes at @from come before the first 0. It reads whole aligned words,
// which never cross a page boundary, so the other bytes of these words can be read, too.
static __attribute__((no_sanitize("address"))) uint64_t length_within(uint64_t from, uint64_t size)
{
	typedef uint64_t __attribute__((may_alias)) eight;
	const uint64_t ones = UINT64_MAX / 0xff, tops = ones << 7;
	uint64_t before = from & 7, done = 8 - before, zeros;
	const eight *at = (const eight *)(from - before);
	uint64_t bytes = *at | (((uint64_t)1 << 8 * before) - 1);

	while (!(zeros = (bytes - ones) & ~bytes & tops) && done < size) {
		bytes = *++at;
		done += 8;
	}
	if (zeros)
		done = done - 8 + (uint64_t)__builtin_ctzll(zeros) / 8;
	return smaller(done, size);
}

// Returns how many bytes of a string at @from lie on its page, at most @most.
static uint64_t on_page(uint64_t from, uint64_t most)
{
	return smaller(SOSC_PAGE - (from & (SOSC_PAGE - 1)), most);
}

static void keep_copy(struct sosc_capture *capture, struct sosc_item *item, const uint8_t *piece)
{
	uint8_t *copy = capture->copies + capture->copied;

	if (item->size > sizeof(capture->copies) - capture->copied)
		return;
	memcpy(copy, piece, item->size);
	capture->copied += item->size;
	item->from = (uint64_t)copy;
	item->checked = false;
}

// Measures the rest of a string after its first item->size bytes, which can be read.
static __attribute__((noinline)) void measure_rest(struct sosc_capture *capture,
						   struct sosc_item *item, uint32_t limit)
{
	uint8_t piece[PIECE];

	while (item->size <= limit) {
		uint64_t from = item->from + item->size, bytes = from;
		uint64_t want = on_page(from, limit + 1 - item->size), got = want, length;

		if (!sosc_capture_is_there(capture, from, want, false)) {
			item->checked = true;
			bytes = (uint64_t)piece;
			got = sosc_checked_copy(capture, piece, from, smaller(want, PIECE));
		}
		if (!got) {
			item->flags |= item->size ? SOSC_DATA_TRUNCATED : SOSC_DATA_UNREADABLE;
			return;
		}
		length = length_within(bytes, got);
		item->size += (uint32_t)length;
		if (length < got || item->size > limit) {
			if (item->checked && length == item->size)
				keep_copy(capture, item, piece);
			return;
		}
	}
}

/**
 * Measure the string at item->from, at most @limit + 1 bytes of it. If item->checked is false, the
 * function itself reads the beginning, so all of the first page can be read.
 */
void sosc_capture_string(struct sosc_capture *capture, struct sosc_item *item, uint32_t limit)
{
	uint64_t want = on_page(item->from, limit + 1);

	item->size = 0;
	if (sosc_capture_is_there(capture, item->from, want, !item->checked)) {
		item->checked = false;
		item->size = (uint32_t)length_within(item->from, want);
		if (item->size < want)
			return;
	}
	item->checked = false;
	measure_rest(capture, item, limit);
}

// Returns whether @op is a string in a register that the function itself reads. The other fields
// are ignored.
static bool is_read_string(const union sosc_program_word *op)
{
	static const union sosc_program_word mask = {
		.op = {.op = 0xff, .length = 0xff, .flags = 0xff}};
	static const union sosc_program_word read = {.op = {.op = SOSC_OP_STRING,
							    .length = SOSC_LENGTH_LIMIT,
							    .flags = SOSC_OP_IS_READ}};

	return (op->word & mask.word) == read.word && op->op.arg < SOSC_REGISTER_ARGUMENTS;
}

// Adds a string at @from that the function itself reads. Returns false if it does not end on its
// first page.
static inline bool add_read_string(struct sosc_capture *capture, const struct sosc_op *op,
				   uint64_t from)
{
	uint32_t limit = op->limit ? op->limit : sosc_session->string_limit;
	uint64_t want = on_page(from, limit + 1), size;

	if (limit >= SOSC_BYTES_MAX || !sosc_capture_may_be(from))
		return false;
	size = length_within(from, want);
	if (size >= want)
		return false;
	sosc_capture_add(capture, (struct sosc_item){.from = from,
						     .size = (uint32_t)size,
						     .kind = SOSC_DATA_STRING,
						     .item = op->item});
	return true;
}

/**
 * Measure the string of @word as sosc_capture_measure does, if the function itself reads it. Return
 * whether that was done.
 */
bool sosc_capture_read_string(struct sosc_capture *capture, const union sosc_program_word *word)
{
	return !capture->at_exit && capture->of_libc && is_read_string(word) &&
	       add_read_string(capture, &word->op, capture->words[word->op.arg]);
}

/**
 * Measure the entry program at @at as sosc_capture_measure and sosc_capture_total do, if it
 * consists of a few short strings that the function itself reads, as many programs do. Return false
 * if it does not; then nothing is measured. capture->words is not used.
 */
bool sosc_capture_strings(struct sosc_capture *capture, const struct sosc_op *at)
{
	uint32_t bytes = SOSC_UNIT;

	if (!capture->of_libc)
		return false;
	for (;; at++) {
		const union sosc_program_word now = sosc_program_word(at);

		if (!is_read_string(&now) || capture->count == FEW_STRINGS) {
			if (now.op.op == SOSC_OP_END && capture->count)
				break;
			capture->count = 0;
			return false;
		}
		if (!add_read_string(capture, &now.op, *sosc_argument(capture->regs, now.op.arg)) ||
		    capture->items[capture->count - 1].size >= SOSC_LONG) {
			capture->count = 0;
			return false;
		}
		bytes += sosc_units_of(&capture->items[capture->count - 1]) * SOSC_UNIT;
	}
	capture->total = bytes;
	capture->is_long = false;
	return true;
}
