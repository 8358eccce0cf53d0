// SPDX-License-Identifier: Apache-2.0
// Wide strings: characters of 4 bytes up to a character 0. They may lie at any address.

#include "trace/capture.h"

enum {
	WCHAR = sizeof(uint32_t),
	PIECE = 256, // bytes that are read at a time
	NOT_ASCII = '\x80', // no conversion of a format contains it
};

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t character(const uint8_t *at)
{
	uint32_t code;

	memcpy(&code, at, sizeof(code));
	return code;
}

/**
 * Measure the wide string at item->from, at most @most bytes of it. If item->checked is false, the
 * function itself reads the beginning.
 */
void sosc_capture_wchars(struct sosc_capture *capture, struct sosc_item *item, uint32_t most)
{
	bool is_read = !item->checked, is_over = false;
	uint8_t piece[PIECE];

	item->size = 0;
	while (item->size < most && !is_over) {
		uint64_t from = item->from + item->size, page = from / SOSC_PAGE;
		uint32_t on_page = (uint32_t)(SOSC_PAGE - from % SOSC_PAGE) / WCHAR * WCHAR;
		uint32_t want = smaller(most - item->size, smaller(PIECE, on_page));
		uint32_t got, length = 0;
		const uint8_t *at = piece;

		if (!want) // a character that crosses the page boundary
			want = WCHAR;
		if (sosc_capture_is_there(capture, from, want,
					  is_read && page == item->from / SOSC_PAGE)) {
			at = (const uint8_t *)from;
			got = want;
		} else {
			got = (uint32_t)sosc_checked_copy(capture, piece, from, want) / WCHAR *
			      WCHAR;
		}
		while (length < got && character(at + length))
			length += WCHAR;
		item->size += length;
		if (!got)
			item->flags |= item->size ? SOSC_DATA_TRUNCATED : SOSC_DATA_UNREADABLE;
		is_over = !got || length < got;
	}
	item->checked = !sosc_capture_is_there(capture, item->from, item->size, is_read);
}

/** Copy the first @most characters of what was measured, each as one byte. Return their number. */
uint32_t sosc_capture_narrowed(const struct sosc_capture *capture, char *to,
			       const struct sosc_item *item, uint32_t most)
{
	uint32_t size = smaller(item->size, WCHAR * most), done = 0;
	uint8_t piece[PIECE];

	while (done < size) {
		struct sosc_item next = {.from = item->from + done,
					 .size = smaller(size - done, PIECE),
					 .checked = item->checked};

		if (sosc_capture_copy(capture, piece, &next) != next.size)
			return 0;
		for (uint32_t at = 0; at < next.size; at += WCHAR) {
			uint32_t code = character(piece + at);

			*to++ = code && code < 128 ? (char)code : NOT_ASCII;
		}
		done += next.size;
	}
	return size / WCHAR;
}
