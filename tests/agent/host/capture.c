// SPDX-License-Identifier: Apache-2.0
// capture: records of capture programs, read back: strings up to the end of a page, pointers
// to nowhere, limits, lengths by argument and by result, words kept until the exit.
#include "captured.h"

static struct got *string_at(const char *text, uint16_t limit, uint8_t flags)
{
	struct sosc_op op = {
		.op = SOSC_OP_STRING, .arg = 1, .limit = limit, .flags = flags, .item = 7};

	frame.regs.rsi = (uint64_t)text;
	enter(&op, 1);
	CHECK(item_count == 1 && items[0].item == 7);
	return &items[0];
}

static void strings(void)
{
	char *text = memcpy(edge - 6, "hello", 6), pattern[5000];

	for (uint8_t must = 0; must < 2; must++) { // read unchecked, where the callee must
		CHECK(is(string_at(text, 32, must), SOSC_DATA_STRING, 0, "hello", 5));
		CHECK(is(string_at(text, 5, must), SOSC_DATA_STRING, 0, "hello", 5));
		CHECK(is(string_at(text, 4, must), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, "hell",
			 4));
		CHECK(is(string_at(text + 5, 32, must), SOSC_DATA_STRING, 0, "", 0));
		CHECK(is(string_at(NULL, 32, must), SOSC_DATA_STRING, SOSC_DATA_NULL, "", 0));
	}
	CHECK(is(string_at(edge, 32, 0), SOSC_DATA_STRING, SOSC_DATA_UNREADABLE, "", 0));
	CHECK(is(string_at((char *)8, 32, 0), SOSC_DATA_STRING, SOSC_DATA_UNREADABLE, "", 0));
	char *pointers[] = {text, edge, NULL}; // and what pointers to pointers lead to

	CHECK(is(string_at((char *)&pointers[0], 32, SOSC_OP_TEXT_AT), SOSC_DATA_STRING, 0, "hello",
		 5));
	CHECK(is(string_at((char *)&pointers[0], 4, SOSC_OP_TEXT_AT), SOSC_DATA_STRING,
		 SOSC_DATA_TRUNCATED, "hell", 4));
	for (int i = 1; i < 3; i++)
		CHECK(is(string_at((char *)&pointers[i], 32, SOSC_OP_TEXT_AT), SOSC_DATA_STRING,
			 SOSC_DATA_UNREADABLE, "", 0));
	CHECK(is(string_at(edge, 32, SOSC_OP_TEXT_AT), SOSC_DATA_STRING, SOSC_DATA_UNREADABLE, "",
		 0));
	CHECK(is(string_at(NULL, 32, SOSC_OP_TEXT_AT), SOSC_DATA_STRING, SOSC_DATA_NULL, "", 0));
	text[5] = '!'; // no end before the page's
	for (uint8_t must = 0; must < 2; must++) { // what lies behind is nobody's
		CHECK(is(string_at(text, 32, must), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, "hello!",
			 6));
		CHECK(is(string_at(text, 6, must), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, "hello!",
			 6));
	}
	CHECK(is(string_at(text, 5, 0), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, "hello", 5));
	memset(pattern, 'x', sizeof(pattern)); // longer than any limit
	for (uint32_t size = 0; size < 400; size += 7) {
		pattern[size] = 0;
		CHECK(is(string_at(pattern, 300, 0), SOSC_DATA_STRING,
			 size > 300 ? SOSC_DATA_TRUNCATED : 0, pattern, size > 300 ? 300 : size));
		pattern[size] = 'x';
	}
	pattern[4999] = 0;
	CHECK(is(string_at(pattern, 60000, 0), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, pattern,
		 4096));
	CHECK(string_at(pattern, 0, 0)->size == host_plan->string_limit);
}

// A string that the function reads is looked at word by word: from any address, to any end.
static void strings_by_words(void)
{
	static const char odd[] = "\x01\x80\xff\x7f\x81 \xfe~"; // next to 0, by a bit or a borrow

	for (uint32_t i = 0; i < 16 * 40 * 2; i++) { // behind its end is nothing, or more
		uint32_t from = i % 16, size = i / 16 % 40, limit = 1 + (from * 7 + size) % 40;
		char *text = edge - size - 1 - i / 640 * 16 - from;

		memset(text - 16, 0, 16);
		for (uint32_t at = 0; at < size; at++)
			text[at] = odd[(from + at) % (sizeof(odd) - 1)];
		text[size] = 0;
		memset(text + size + 1, 'x', (size_t)(edge - text) - size - 1);
		CHECK(is(string_at(text, (uint16_t)limit, SOSC_OP_IS_READ), SOSC_DATA_STRING,
			 size > limit ? SOSC_DATA_TRUNCATED : 0, text,
			 size > limit ? limit : size));
	}
}

static void words(void)
{
	const struct sosc_op ops[] = {{.op = SOSC_OP_WORDS, .arg = 6},
				      {.op = SOSC_OP_STACK, .arg = 3},
				      {.op = SOSC_OP_FLOAT, .arg = 2},
				      {.op = SOSC_OP_WORD_AT, .arg = 2, .item = 2}};
	uint64_t word = 0x1122334455667788, wanted[] = {2, (uint64_t)&word, 4, 5, 6};
	register double a __asm__("xmm0") = 1.5;
	const struct sosc_entry *entry;

	frame.regs.rdi = 1, frame.regs.rsi = 2, frame.regs.rdx = (uint64_t)&word;
	frame.regs.rcx = 4, frame.regs.r8 = 5, frame.regs.r9 = 6;
	memcpy(frame.regs.stack, (uint64_t[]){11, 12, 13}, 24);
	__asm__ volatile("" : "+x"(a));
	entry = enter(ops, 4);
	CHECK(entry->arg0 == 1 && entry->return_addr == 0x400123 && entry->tsc);
	CHECK(entry->sp == (uint32_t)(uint64_t)&frame.regs.ret);
	CHECK(item_count == 4);
	CHECK(is(&items[0], SOSC_DATA_WORDS, 0, wanted, 40) && items[0].item == 1);
	CHECK(is(&items[1], SOSC_DATA_STACK, 0, frame.regs.stack, 24));
	CHECK(items[2].kind == SOSC_DATA_FLOATS && items[2].size == 16);
	CHECK(is(&items[3], SOSC_DATA_WORD_AT, 0, &word, 8));
	frame.regs.rdx = 16;
	enter(ops, 4);
	CHECK(items[3].flags == SOSC_DATA_UNREADABLE);
	frame.regs.rdx = 0;
	enter(ops, 4);
	CHECK(items[3].flags == SOSC_DATA_NULL && !items[3].size);
}

static void lengths(void)
{
	struct sosc_op op = {.op = SOSC_OP_BYTES,
			     .arg = 0,
			     .length = SOSC_LENGTH_PRODUCT,
			     .length_arg = 1,
			     .limit = 100,
			     .item = 0};
	static const uint64_t sizes[][3] = {
		// arguments, bytes kept
		{0, 8, 0},     {4, 8, 32},	     {10, 10, 100},
		{10, 11, 100}, {UINT64_MAX, 2, 100}, {1ull << 33, 1ull << 33, 100},
	};

	frame.regs.rdi = (uint64_t)(edge - 200);
	for (int i = 0; i < 6; i++) {
		frame.regs.rsi = sizes[i][0], frame.regs.rdx = sizes[i][1];
		enter(&op, 1);
		CHECK(items[0].size == sizes[i][2] &&
		      items[0].flags == (i > 2 ? SOSC_DATA_TRUNCATED : 0));
		CHECK(!memcmp(items[0].bytes, edge - 200, items[0].size));
	}
	op.length = SOSC_LENGTH_ARG, op.length_arg = 2;
	frame.regs.rdi = (uint64_t)(edge - 10), frame.regs.rdx = 50;
	enter(&op, 1);
	CHECK(is(&items[0], SOSC_DATA_BYTES, SOSC_DATA_TRUNCATED, edge - 10, 10));
	frame.regs.rdi = (uint64_t)edge;
	enter(&op, 1);
	CHECK(is(&items[0], SOSC_DATA_BYTES, SOSC_DATA_UNREADABLE, "", 0));
	op.limit = 4000; // as far as it can be read, over any number of units
	for (uint32_t there = 1; there < 3000; there += 83) {
		frame.regs.rdi = (uint64_t)(edge - there), frame.regs.rdx = 3500;
		enter(&op, 1);
		CHECK(is(&items[0], SOSC_DATA_BYTES, SOSC_DATA_TRUNCATED, edge - there, there));
	}
	op.flags = SOSC_OP_INT_LENGTH, op.limit = 32;
	frame.regs.rdi = (uint64_t)(edge - 200), frame.regs.rdx = 0xdeadbeef00000005;
	enter(&op, 1);
	CHECK(items[0].size == 5 && !items[0].flags);
	frame.regs.rdx = 0x80000005; // no length, as an int or not
	enter(&op, 1);
	CHECK(!items[0].size && !items[0].flags);
	op.op = SOSC_OP_STRING, op.flags = 0; // one that need not end
	for (uint32_t size = 0; size < 40; size++) {
		frame.regs.rdi = (uint64_t)(edge - size), frame.regs.rdx = size;
		memset(edge - size, 'x', size);
		enter(&op, 1);
		CHECK(is(&items[0], SOSC_DATA_STRING, size > 32 ? SOSC_DATA_TRUNCATED : 0,
			 edge - size, size > 32 ? 32 : size));
	}
	op = (struct sosc_op){
		.op = SOSC_OP_BYTES, .length = SOSC_LENGTH_ARG, .length_arg = 2, .item = 0};
	op.limit = 4096, frame.regs.rdi = (uint64_t)(edge - 4096), frame.regs.rdx = 4096;
	{ // more than a record can hold: some are cut, the record is whole
		struct sosc_op many[10];

		for (uint8_t i = 0; i < 10; i++)
			many[i] = op, many[i].item = i;
		enter(many, 10);
		CHECK(item_count == 10 && items[0].size == 4096 && !items[9].size);
		CHECK(items[9].flags == SOSC_DATA_TRUNCATED && items[9].item == 9);
	}
}

static void until_the_exit(void)
{
	const struct sosc_op ops[] = {
		{.op = SOSC_OP_BYTES,
		 .arg = 1,
		 .length = SOSC_LENGTH_RESULT,
		 .limit = 64,
		 .item = 1},
		{.op = SOSC_OP_WORD_AT, .arg = 3, .item = 3},
		{.op = SOSC_OP_STRING, .arg = SOSC_ARG_RESULT, .limit = 8, .item = 0xff}};
	uint64_t word = 99;
	const struct sosc_exit *unit;

	memcpy(program(EXIT), ops, sizeof(ops));
	program(EXIT)[3] = (struct sosc_op){.op = SOSC_OP_END};
	function->exit_words = 1; // any: the ops say which
	for (int round = 0; round < 3; round++) {
		frame.regs.rsi = (uint64_t)(edge - 100), frame.regs.rcx = (uint64_t)&word;
		enter(ops, 0);
		frame.regs.rsi = frame.regs.rcx = 0; // destroyed by the function
		unit = leave(ops, 3, round ? (uint64_t)-1 : 5);
		CHECK(unit->result == frame.regs.rax && unit->tsc && !unit->reserved);
		CHECK(item_count == 3 && items[0].size == (round ? 0 : 5));
		CHECK(!memcmp(items[0].bytes, edge - 100, items[0].size));
		CHECK(is(&items[1], SOSC_DATA_WORD_AT, 0, &word, 8));
		CHECK(items[2].flags == SOSC_DATA_UNREADABLE && items[2].item == 0xff);
	}
	unit = leave(ops, 3, 5); // without an entry: the words are gone, the exit is not
	CHECK(item_count == 3 && items[0].flags == SOSC_DATA_UNREADABLE &&
	      items[1].flags == SOSC_DATA_UNREADABLE);
}

static void arguments_in_memory(void)
{
	const struct sosc_op at_entry[] = {
		{.op = SOSC_OP_STRING, .arg = SOSC_ARG_STACK + 1, .limit = 8, .item = 7},
		{.op = SOSC_OP_BYTES,
		 .arg = SOSC_ARG_STACK,
		 .length = SOSC_LENGTH_ARG,
		 .length_arg = SOSC_ARG_STACK + 2,
		 .limit = 64,
		 .item = 6}};
	const struct sosc_op at_exit[] = {
		{.op = SOSC_OP_WORD_AT, .arg = SOSC_ARG_STACK + 3, .item = 9},
		{.op = SOSC_OP_BYTES,
		 .arg = SOSC_ARG_STACK,
		 .length = SOSC_LENGTH_RESULT_ARG,
		 .length_arg = SOSC_ARG_STACK + 2,
		 .limit = 64,
		 .item = 6},
		{.op = SOSC_OP_BYTES,
		 .arg = SOSC_ARG_STACK,
		 .length = SOSC_LENGTH_AT,
		 .length_arg = SOSC_ARG_STACK + 3,
		 .limit = 64,
		 .item = 10}};
	uint64_t word = 77;

	memcpy(program(EXIT), at_exit, sizeof(at_exit));
	program(EXIT)[3] = (struct sosc_op){.op = SOSC_OP_END};
	memcpy(frame.regs.stack,
	       (uint64_t[]){(uint64_t)(edge - 100), (uint64_t)"seven", 5, (uint64_t)&word}, 32);
	enter(at_entry, 2);
	CHECK(item_count == 2 && items[0].item == 7 && items[1].item == 6);
	CHECK(is(&items[0], SOSC_DATA_STRING, 0, "seven", 5));
	CHECK(is(&items[1], SOSC_DATA_BYTES, 0, edge - 100, 5));
	memset(frame.regs.stack, 0xff, 32); // the function's own, and written by it
	leave(at_exit, 3, 9);
	CHECK(item_count == 3 && is(&items[0], SOSC_DATA_WORD_AT, 0, &word, 8));
	CHECK(is(&items[1], SOSC_DATA_BYTES, 0, edge - 100, 5));
	CHECK(items[2].flags == SOSC_DATA_UNREADABLE); // such a length is of registers alone
	enter(at_entry, 2);
	CHECK(items[0].flags == SOSC_DATA_UNREADABLE);
	memset(frame.regs.stack, 0, 32);
	enter(at_entry, 2);
	CHECK(items[0].flags == SOSC_DATA_NULL && items[1].flags == SOSC_DATA_NULL);
	leave(at_exit, 3, 9);
	CHECK(items[0].flags == SOSC_DATA_NULL && items[1].flags == SOSC_DATA_NULL);
}

// recvfrom: two lengths, one of them where a pointer leads, at the entry and at the exit.
static void no_more_than_was_written(void)
{
	const struct sosc_op ops[] = {{.op = SOSC_OP_BYTES,
				       .arg = 1,
				       .length = SOSC_LENGTH_RESULT_ARG,
				       .length_arg = 2,
				       .limit = 64,
				       .item = 1},
				      {.op = SOSC_OP_BYTES,
				       .arg = 4,
				       .length = SOSC_LENGTH_AT,
				       .length_arg = 5,
				       .limit = 110,
				       .item = 4},
				      {.op = SOSC_OP_BYTES, .arg = 5, .limit = 4, .item = 5}};
	static const struct {
		uint64_t result, size;
		int32_t before, now;
		uint32_t bytes, address;
	} cases[] = {
		{16, 4, 128, 16, 4, 16},	 {4, 16, 16, 128, 4, 16}, {0, 16, 128, 0, 0, 0},
		{(uint64_t)-1, 9, 128, 2, 0, 2}, {7, 0, -1, 16, 0, 0},	  {7, 7, 16, -1, 7, 0},
		{50, 60, 2, 2, 50, 2},
	};

	memcpy(program(EXIT), ops, sizeof(ops));
	program(EXIT)[3] = (struct sosc_op){.op = SOSC_OP_END};
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int32_t size = cases[i].before;

		frame.regs.rsi = (uint64_t)(edge - 64), frame.regs.rdx = cases[i].size;
		frame.regs.r8 = (uint64_t)(edge - 300), frame.regs.r9 = (uint64_t)&size;
		enter(ops, 0);
		frame.regs.rsi = frame.regs.rdx = frame.regs.r8 = frame.regs.r9 = 0;
		size = cases[i].now;
		leave(ops, 3, cases[i].result);
		CHECK(item_count == 3);
		CHECK(is(&items[0], SOSC_DATA_BYTES, 0, edge - 64, cases[i].bytes));
		CHECK(is(&items[1], SOSC_DATA_BYTES, 0, edge - 300, cases[i].address));
		CHECK(is(&items[2], SOSC_DATA_BYTES, SOSC_DATA_TRUNCATED, &size, 4));
	}
	frame.regs.r8 = (uint64_t)edge, frame.regs.r9 = 8; // nowhere: no length
	enter(ops, 0);
	leave(ops, 3, 1);
	CHECK(items[1].flags & SOSC_DATA_UNREADABLE && items[2].flags & SOSC_DATA_UNREADABLE);
	leave(ops, 3, 1); // nothing of it is left
	CHECK(items[1].flags == SOSC_DATA_UNREADABLE && items[2].flags == SOSC_DATA_UNREADABLE);
}

static const struct got *values_of(const struct sosc_va_list *list, const char *format)
{
	const struct sosc_op op = {
		.op = SOSC_OP_VA_FORMAT, .arg = 0, .length_arg = 1, .limit = 256, .item = 0};

	frame.regs.rdi = (uint64_t)format, frame.regs.rsi = (uint64_t)list;
	enter(&op, 1);
	CHECK(items[0].kind == SOSC_DATA_STRING && !strcmp((char *)items[0].bytes, format));
	return item_count > 1 && items[1].item == SOSC_ITEM_VALUES ? &items[1] : NULL;
}

static bool has_values(const struct got *got, const uint64_t *wanted, uint32_t count)
{
	return got && is(got, SOSC_DATA_BYTES, 0, wanted, 8 * count);
}

static void lists_of_arguments(void)
{
	static uint64_t saved[SOSC_SAVED_SIZE / 8], memory[40] __attribute__((aligned(16)));
	struct sosc_va_list list, *far = (void *)(edge - sizeof(list));
	uint64_t wanted[] = {104, 108, 105, 200, 202, 203, 204};

	for (uint64_t i = 0; i < 22; i++)
		saved[i] = 100 + i;
	for (uint64_t i = 0; i < 40; i++)
		memory[i] = 200 + i;
	function->flags |= SOSC_FN_WIDE;
	list = (struct sosc_va_list){32, 64, (uint64_t)memory, (uint64_t)saved};
	memcpy(far, &list, sizeof(list));
	CHECK(has_values(values_of(&list, "%d %g %d %d %Lg %d"), wanted, 7));
	CHECK(has_values(values_of(far, "%d %g %d %d %Lg %d"), wanted, 7));
	CHECK(has_values(values_of(&list, "none"), wanted, 0));
	CHECK(has_values(values_of(&list, "%d %q %d"), wanted, 1)); // up to what is not known
	list.saved = (uint64_t)edge - 40; // no integers behind the first
	memcpy(edge - 8, (uint64_t[]){104}, 8);
	CHECK(has_values(values_of(&list, "%d %d %d"), wanted, 1));
	list.saved = 8, list.integers = 48, list.memory = (uint64_t)edge - 16;
	memcpy(edge - 16, wanted, 16);
	CHECK(has_values(values_of(&list, "%d %d %d"), wanted, 2));
	CHECK(has_values(values_of(&list, "%g"), wanted, 0));
	memset(&list, 0xff, sizeof(list));
	CHECK(!values_of(&list, "%d %s"));
	CHECK(!values_of((void *)edge, "%d") && !values_of(NULL, "%d"));
	list = (struct sosc_va_list){48, 7, (uint64_t)memory, (uint64_t)saved};
	CHECK(has_values(values_of(&list, "%d %g"), &memory[0], 1));
	memory[0] = (uint64_t)"text"; // as many as there is room for
	CHECK(has_values(values_of(&list, "%s%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d"), memory, 16));
	CHECK(items[2].item == 1 && is(&items[2], SOSC_DATA_STRING, 0, "text", 4));
	function->flags &= (uint16_t)~SOSC_FN_WIDE;
	CHECK(!values_of(&list, "%d"));
}

static const struct got *named(const char *format, const void *first, const void *second)
{
	const struct sosc_op op = {.op = SOSC_OP_FORMAT,
				   .arg = 2,
				   .limit = 256,
				   .flags = SOSC_OP_IS_READ | SOSC_OP_NAMES_READ,
				   .item = 2};

	frame.regs.rdx = (uint64_t)format;
	frame.regs.rcx = (uint64_t)first, frame.regs.r8 = (uint64_t)second;
	enter(&op, 1);
	CHECK(items[0].item == 2 && items[0].kind == SOSC_DATA_STRING);
	return &items[1];
}

// Strings that a format names are not checked where the function reads them in any case.
static void named_strings(void)
{
	// by what a C library may refuse, behind the string or in front of it
	static const char *const refused[] = {"%s%n",  "%s%ls",	  "%s%S",     "%s%lc", "%s%C",
					      "%s%Id", "%s%Ld",	  "%s%qd",    "%s%hc", "%s%zp",
					      "%hs",   "%s%300d", "%s%.300d", "%300s", "%s%5%%",
					      "%s%Q",  "%s%1$d",  "%.300s"};
	char *text = memcpy(edge - 6, "hello", 6), format[300];
	const struct got *got = named("%d %s", (void *)7, text);

	CHECK(item_count == 2 && is(got, SOSC_DATA_STRING, 0, "hello", 5) && got->item == 4);
	got = named("%s%.3s", text, "unended");
	CHECK(item_count == 3 && is(got, SOSC_DATA_STRING, 0, "hello", 5));
	CHECK(is(got + 1, SOSC_DATA_STRING, 0, "une", 3));
	CHECK(is(named("%.0s", edge, NULL), SOSC_DATA_STRING, 0, "", 0)); // nobody reads it
	CHECK(named("%s", NULL, NULL)->flags == SOSC_DATA_NULL);
	for (uint32_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		got = named(refused[i], edge, NULL);
		CHECK(got->item == 3 && got->flags == SOSC_DATA_UNREADABLE);
	}
	got = named("%s %f%s", text, edge) + 1; // what is in front of the second may fail
	CHECK(got->item == 5 && got->flags == SOSC_DATA_UNREADABLE);
	frame.regs.r9 = (uint64_t)edge;
	CHECK(named("%*d%s", (void *)300, NULL)->flags == SOSC_DATA_UNREADABLE);
	memset(format, 'x', sizeof(format)); // how it ends is not known
	memcpy(format, "%s", 2), format[299] = 0;
	CHECK(named(format, edge, NULL)->flags == SOSC_DATA_UNREADABLE);
	text[5] = '!'; // one without an end, and then one that nobody may come to
	got = named("%s%s", text, edge);
	CHECK(got[0].flags == SOSC_DATA_TRUNCATED && got[1].flags == SOSC_DATA_UNREADABLE);
	sosc_layers[CELL].of_libc = 0; // another function of that name
	CHECK(named("%s", edge, NULL)->flags == SOSC_DATA_UNREADABLE);
	sosc_layers[CELL].of_libc = 1;
}

// What is copied to where it is may be nowhere.
static void bytes_unless_same(void)
{
	const struct sosc_op op = {.op = SOSC_OP_BYTES,
				   .arg = 1,
				   .length = SOSC_LENGTH_ARG,
				   .length_arg = 2,
				   .flags = SOSC_OP_IS_READ | SOSC_OP_UNLESS_SAME};

	frame.regs.rdi = 8, frame.regs.rsi = (uint64_t)(edge - 4), frame.regs.rdx = 4;
	enter(&op, 1);
	CHECK(is(&items[0], SOSC_DATA_BYTES, 0, edge - 4, 4));
	frame.regs.rdx = 8; // the program is about to crash
	enter(&op, 1);
	CHECK(is(&items[0], SOSC_DATA_BYTES, SOSC_DATA_TRUNCATED, edge - 4, 4));
	frame.regs.rdi = frame.regs.rsi = (uint64_t)edge;
	enter(&op, 1);
	CHECK(items[0].flags == SOSC_DATA_UNREADABLE);
}

// What a function has written it has written at a place that is there.
static void written_strings(void)
{
	const struct sosc_op op = {.op = SOSC_OP_STRING,
				   .arg = 0,
				   .length = SOSC_LENGTH_ARG,
				   .length_arg = 1,
				   .flags = SOSC_OP_IS_READ | SOSC_OP_UNLESS_0 |
					    SOSC_OP_UNLESS_NEGATIVE,
				   .item = 0};
	char *text = memcpy(edge - 6, "hello", 6);

	program(EXIT)[0] = op, program(EXIT)[1] = (struct sosc_op){.op = SOSC_OP_END};
	frame.regs.rdi = (uint64_t)text, frame.regs.rsi = 6;
	enter(&op, 0);
	leave(&op, 1, 5);
	CHECK(is(&items[0], SOSC_DATA_STRING, 0, "hello", 5));
	frame.regs.rdi = (uint64_t)edge; // it has failed
	enter(&op, 0);
	leave(&op, 1, (uint32_t)-1);
	CHECK(is(&items[0], SOSC_DATA_STRING, SOSC_DATA_UNREADABLE, "", 0));
	frame.regs.rsi = 0; // it writes nothing
	enter(&op, 0);
	leave(&op, 1, 5);
	CHECK(is(&items[0], SOSC_DATA_STRING, 0, "", 0));
}

static void vectors(void)
{
	struct sosc_op op = {.op = SOSC_OP_VECTOR, .arg = 2, .limit = 16};

	function->flags |= SOSC_FN_WIDE;
	enter(&op, 1);
	CHECK(item_count == 1 && items[0].item == SOSC_ITEM_VECTORS && items[0].size == 32);
	op.limit = 64, op.arg = 8; // with AVX-512 or without
	enter(&op, 1);
	CHECK(items[0].size == 512 || items[0].flags == SOSC_DATA_UNREADABLE);
	op = (struct sosc_op){.op = SOSC_OP_VECTOR, .arg = 1, .limit = 32, .item = 0xff};
	program(EXIT)[0] = op;
	program(EXIT)[1] = (struct sosc_op){.op = SOSC_OP_END};
	leave(&op, 1, 0);
	CHECK(items[0].item == 0xff);
	CHECK(items[0].size == 32 || items[0].flags == SOSC_DATA_UNREADABLE);
	function->flags &= (uint16_t)~SOSC_FN_WIDE;
}

static void errno_at_the_entry(void)
{
	const struct sosc_op op = {.op = SOSC_OP_ERRNO, .item = SOSC_ITEM_ERRNO};
	int32_t error = 77;

	sosc_errno_offsets[0] = (int64_t)((uint64_t)&errno - thread->key);
	errno = error;
	enter(&op, 1);
	CHECK(is(&items[0], SOSC_DATA_BYTES, 0, &error, 4) && items[0].item == SOSC_ITEM_ERRNO);
	program(EXIT)[0] = (struct sosc_op){.op = SOSC_OP_END};
	errno = 78;
	CHECK(leave(&op, 0, 0)->errno_value == 78);
}

int main(void)
{
	captured_begin();
	strings();
	strings_by_words();
	words();
	lengths();
	until_the_exit();
	arguments_in_memory();
	no_more_than_was_written();
	lists_of_arguments();
	named_strings();
	bytes_unless_same();
	written_strings();
	vectors();
	errno_at_the_entry();
	CHECK(!sosc_control->dropped[SOSC_DROP_FULL]);
	return 0;
}
