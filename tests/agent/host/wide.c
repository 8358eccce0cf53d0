// SPDX-License-Identifier: Apache-2.0
// wide: wide strings in records: up to the end of a page, limits in characters, and those that
// formats name.
#include "captured.h"

#include <wchar.h>

static const struct got *wide_string(const void *from, uint16_t limit, uint32_t length)
{
	const struct sosc_op op = {.op = SOSC_OP_STRING,
				   .length = length == UINT32_MAX ? SOSC_LENGTH_LIMIT :
								    SOSC_LENGTH_ARG,
				   .length_arg = 1,
				   .limit = limit,
				   .flags = SOSC_OP_WCHAR};

	frame.regs.rdi = (uint64_t)from, frame.regs.rsi = length;
	enter(&op, 1);
	return &items[0];
}

static void wide_strings(void)
{
	static wchar_t text[2000];
	const struct sosc_op op = {.op = SOSC_OP_FORMAT,
				   .arg = 2,
				   .limit = 256,
				   .flags = SOSC_OP_IS_READ | SOSC_OP_WCHAR,
				   .item = 2};
	wchar_t *end = memcpy(edge - 12, L"a\u20ac", 12);
	char *odd = memcpy(edge - SOSC_PAGE - 10, L"abc\U0001f600", 20);

	CHECK(is(wide_string(odd, 8, UINT32_MAX), SOSC_DATA_STRING, 0, L"abc\U0001f600", 16));
	memcpy(edge - 12, L"a\u20ac", 12);
	CHECK(is(wide_string(end, 8, UINT32_MAX), SOSC_DATA_STRING, 0, L"a\u20ac", 8));
	CHECK(is(wide_string(end, 2, UINT32_MAX), SOSC_DATA_STRING, 0, end, 8));
	CHECK(is(wide_string(end, 1, UINT32_MAX), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, end, 4));
	CHECK(is(wide_string(L"", 8, UINT32_MAX), SOSC_DATA_STRING, 0, "", 0));
	CHECK(is(wide_string(end + 2, 8, UINT32_MAX), SOSC_DATA_STRING, 0, "", 0));
	CHECK(is(wide_string(end, 8, 1), SOSC_DATA_STRING, 0, end, 4)); // need not end
	CHECK(is(wide_string(end, 8, 0), SOSC_DATA_STRING, 0, "", 0));
	CHECK(wide_string(NULL, 8, UINT32_MAX)->flags == SOSC_DATA_NULL);
	CHECK(wide_string(edge, 8, UINT32_MAX)->flags == SOSC_DATA_UNREADABLE);
	CHECK(wide_string(edge - 2, 8, UINT32_MAX)->flags == SOSC_DATA_UNREADABLE);
	end[2] = L'b'; // it goes on where nothing is
	CHECK(is(wide_string(end, 8, UINT32_MAX), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, end, 12));
	wmemset(text, L'x', 1999);
	CHECK(is(wide_string(text, 4096, UINT32_MAX), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, text,
		 4092));

	frame.regs.rdx = (uint64_t)L"\u20ac%d %ls%s%.1ls %g";
	frame.regs.rcx = 7, frame.regs.r8 = (uint64_t)L"wide", frame.regs.r9 = (uint64_t)"narrow";
	frame.stack[0] = (uint64_t)end;
	enter(&op, 1);
	CHECK(item_count >= 4 && is(&items[0], SOSC_DATA_STRING, 0, (void *)frame.regs.rdx, 68));
	CHECK(items[1].item == 4 && is(&items[1], SOSC_DATA_STRING, 0, L"wide", 16));
	CHECK(items[2].item == 5 && is(&items[2], SOSC_DATA_STRING, 0, "narrow", 6));
	CHECK(items[3].item == 6 && is(&items[3], SOSC_DATA_STRING, 0, end, 4));
	frame.regs.rdx = (uint64_t)"%ls"; // of a narrow one
	frame.regs.rcx = (uint64_t)L"wide";
	enter(&(const struct sosc_op){.op = SOSC_OP_FORMAT, .arg = 2, .limit = 256, .item = 2}, 1);
	CHECK(items[1].item == 3 && is(&items[1], SOSC_DATA_STRING, 0, L"wide", 16));
}

int main(void)
{
	captured_begin();
	wide_strings();
	return 0;
}
