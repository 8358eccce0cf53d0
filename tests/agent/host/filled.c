// SPDX-License-Identifier: Apache-2.0
// filled SEED COUNT: what is kept of calls of scanf. Some are made up here; COUNT are made of
// random formats, for which the C library itself is asked what it stores.
#include "captured.h"

#include "thread/park.h"

#include <stdarg.h>
#include <wchar.h>

static const struct sosc_op scanf_op = {
	.op = SOSC_OP_SCANF, .arg = 1, .limit = 256, .flags = SOSC_OP_IS_READ, .item = 1};
static const struct sosc_op filled_op = {.op = SOSC_OP_FILLED, .arg = SOSC_ARG_RESULT};

static uint64_t words[20]; // behind the format, in order

// A call of sscanf up to the function itself.
static void begin(const void *format, const struct sosc_op *op)
{
	frame.regs.rsi = (uint64_t)format;
	frame.regs.rdx = words[0], frame.regs.rcx = words[1];
	frame.regs.r8 = words[2], frame.regs.r9 = words[3];
	memcpy(frame.stack, words + 4, sizeof(frame.stack));
	enter(op, 1);
}

// And its return: the function may have used its registers and its arguments for something else.
static void end(int result)
{
	frame.regs.rsi = frame.regs.rdx = frame.regs.rcx = frame.regs.r8 = frame.regs.r9 = 8;
	memset(frame.stack, 8, sizeof(frame.stack));
	leave(&filled_op, 1, 0xffffffff00000000 | (uint32_t)result);
}

static void call(const void *format, int result)
{
	begin(format, &scanf_op);
	end(result);
}

static const struct got *item(uint8_t number)
{
	for (int i = 0; i < item_count; i++)
		if (items[i].item == number)
			return &items[i];
	return NULL;
}

static bool has(uint8_t number, uint32_t kind, const void *bytes, uint32_t size)
{
	return item(number) && is(item(number), kind, 0, bytes, size);
}

static void as_many_as_the_result_says(void)
{
	static char text[] = "text";
	int a = 11, read = 0;
	long b = -5;

	words[0] = (uint64_t)&a, words[1] = (uint64_t)text, words[2] = (uint64_t)&b;
	words[3] = (uint64_t)&read;
	call("%d %s %ld %n", -1);
	CHECK(item_count == 0);
	call("%d %s %ld %n", 0);
	CHECK(item_count == 0);
	call("%d %s %ld %n", 1);
	CHECK(item_count == 1 && has(2, SOSC_DATA_BYTES, &a, 4));
	call("%d %s %ld %n", 2);
	CHECK(item_count == 2 && has(3, SOSC_DATA_STRING, "text", 4));
	call("%d %s %ld %n", 3);
	CHECK(item_count == 4 && has(4, SOSC_DATA_BYTES, &b, 8) &&
	      has(5, SOSC_DATA_BYTES, &read, 4));
	call("%d %s %y %n", 3); // up to what is not known
	CHECK(item_count == 2);
	call("%1$d %1$d %2$s", 3); // as little as where one is named twice
	CHECK(item_count == 1);
	call("%*300d %as", 1); // of old that took an address of a string
	CHECK(!item_count);
	call("%a %s", 1);
	CHECK(item_count == 1);
	for (int size = 250; size < 260; size++) {
		char format[300];

		memset(format, ' ', sizeof(format));
		memcpy(format + size - 2, "%as", 4);
		call(format, 1);
		CHECK(!item_count);
	}
	call("%Ld %s", 2); // not every C library stores it
	CHECK(item_count == 1 && item(3));
	call("%3$ld %1$d", 2);
	CHECK(item_count == 2 && has(2, SOSC_DATA_BYTES, &a, 4) && has(4, SOSC_DATA_BYTES, &b, 8));
	words[0] = 0, words[1] = (uint64_t)edge, words[2] = 8;
	call("%d %s %ld", 3);
	CHECK(item_count == 2 && item(3)->flags == SOSC_DATA_UNREADABLE);
	CHECK(item(4)->flags == SOSC_DATA_UNREADABLE);
	memcpy(edge - 3, "end", 3);
	words[0] = (uint64_t)(edge - 3), words[1] = (uint64_t)(edge - 2);
	call("%s %d", 2);
	CHECK(is(item(2), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, "end", 3));
	CHECK(is(item(3), SOSC_DATA_BYTES, SOSC_DATA_TRUNCATED, "nd", 2));
}

// Whether it was come to shows by what stands there, if nothing else tells.
static void how_many_were_read(void)
{
	int a = 1, read = 7;

	words[0] = (uint64_t)&a, words[1] = (uint64_t)&read;
	call("%d%n", 1);
	CHECK(has(3, SOSC_DATA_BYTES, &read, 4));
	call("%d x%n", 1);
	CHECK(!item(3));
	for (int result = -1; result < 2; result++) {
		begin(result > 0 ? "%d x%n" : "x%2$n %1$d", &scanf_op);
		read++;
		end(result);
		CHECK(has(3, SOSC_DATA_BYTES, &read, 4));
	}
	begin("%d x%n", &scanf_op);
	read++;
	end(0);
	CHECK(!item_count); // somebody else's
	call("x%2$n %1$d", 1);
	CHECK(has(3, SOSC_DATA_BYTES, &read, 4));
}

// glibc counts characters where the input had some of them.
static void characters(void)
{
	char five[] = "abcde", *made = five, *zeros = calloc(1, 100);
	wchar_t wide[] = L"wide", *wide_made = wide;

	words[0] = (uint64_t)five, words[1] = (uint64_t)zeros;
	call("%c", 1);
	CHECK(has(2, SOSC_DATA_BYTES, "a", 1));
	call("%5c %1c", 1);
	CHECK(!item_count);
	call("%5c %1c", 2);
	CHECK(has(2, SOSC_DATA_BYTES, "abcde", 5) && has(3, SOSC_DATA_BYTES, "", 1));
	begin("%5c", &scanf_op);
	five[4] = 'x';
	end(1);
	CHECK(has(2, SOSC_DATA_BYTES, "abcdx", 5));
	words[0] = (uint64_t)&made;
	call("%5mc%s", 2);
	CHECK(has(2, SOSC_DATA_BYTES, "abcdx", 5) && has(3, SOSC_DATA_STRING, "", 0));
	call("%5mc%s", 1);
	CHECK(!item_count);
	call("%ms", 1);
	CHECK(has(2, SOSC_DATA_STRING, "abcdx", 5));
	call("%m[^]x]", 1);
	CHECK(has(2, SOSC_DATA_STRING, "abcdx", 5));
	made = NULL;
	call("%ms", 1);
	CHECK(!item_count);
	words[0] = (uint64_t)wide, words[1] = (uint64_t)&wide_made;
	call("%ls%mS", 2);
	CHECK(has(2, SOSC_DATA_STRING, L"wide", 16) && has(3, SOSC_DATA_STRING, L"wide", 16));
	call("%3lc%mC", 2);
	CHECK(has(2, SOSC_DATA_BYTES, L"wid", 12) && has(3, SOSC_DATA_BYTES, L"w", 4));
	host_plan->string_limit = 2;
	host_look();
	call("%ls%mS", 2);
	CHECK(is(item(2), SOSC_DATA_STRING, SOSC_DATA_TRUNCATED, L"wi", 8));
	call("%3lc%mS", 2);
	CHECK(is(item(2), SOSC_DATA_BYTES, SOSC_DATA_TRUNCATED, L"wi", 8));
	host_plan->string_limit = 32;
	host_look();
	free(zeros);
}

static void wide_formats(void)
{
	struct sosc_op op = scanf_op;
	char narrow[] = "narrow";
	int a = 3;

	op.flags |= SOSC_OP_WCHAR;
	words[0] = (uint64_t)&a, words[1] = (uint64_t)narrow, words[2] = (uint64_t)L"w";
	words[3] = (uint64_t)narrow;
	begin(L"\u20ac%d%[^\u20ac]%ls %c", &op);
	end(4);
	CHECK(item_count == 3 && has(2, SOSC_DATA_BYTES, &a, 4));
	CHECK(has(3, SOSC_DATA_STRING, "narrow", 6) && has(4, SOSC_DATA_STRING, L"w", 4));
}

static void lists(void)
{
	static uint64_t saved[SOSC_SAVED_SIZE / 8], memory[20];
	const struct sosc_op op = {
		.op = SOSC_OP_VA_SCANF, .arg = 1, .length_arg = 2, .limit = 256, .item = 1};
	struct sosc_va_list list = {32, 48, (uint64_t)memory, (uint64_t)saved};
	int values[20];

	function->flags |= SOSC_FN_WIDE;
	for (int i = 0; i < 20; i++) {
		values[i] = 100 + i;
		*(i < 2 ? &saved[4 + i] : &memory[i - 2]) = (uint64_t)&values[i];
	}
	words[0] = (uint64_t)&list;
	begin("%d%*d%d%d%d", &op);
	CHECK(items[1].item == SOSC_ITEM_VALUES && items[1].size == 32);
	memset(&list, 0xff, sizeof(list)); // used up
	memset(memory, 0, sizeof(memory));
	end(4);
	CHECK(item_count == 4);
	for (uint8_t i = 0; i < 4; i++)
		CHECK(has(2 + i, SOSC_DATA_BYTES, &values[i], 4));
	begin("%d%d%d", &op); // a list that cannot be read
	end(3);
	CHECK(!item_count);
	function->flags &= (uint16_t)~SOSC_FN_WIDE;
}

// Calls that have been left, and more of them than there is room for.
static void left(void)
{
	uint64_t dropped = sosc_control->dropped[SOSC_DROP_WORDS];
	struct sosc_filling *first, *again;
	int a = 1;

	words[0] = (uint64_t)&a;
	for (int i = 0; i < 30; i++)
		begin("%d", &scanf_op);
	end(1);
	CHECK(has(2, SOSC_DATA_BYTES, &a, 4));
	end(1); // that one is over
	CHECK(!item_count && sosc_control->dropped[SOSC_DROP_WORDS] == dropped + 1);
	end(0);
	CHECK(sosc_control->dropped[SOSC_DROP_WORDS] == dropped + 1);
	for (uint64_t sp = 0x7000; sp < 0x7000 + 16 * SOSC_FILLINGS; sp += 16)
		sosc_filling_place(thread, sp, 1)->sp = sp;
	first = sosc_filling_find(thread, 0x7000, 1);
	CHECK(first && sosc_filling_find(thread, 0x7010, 1));
	again = sosc_filling_place(thread, 0x6000, 1); // the oldest goes
	CHECK(again == first && again->sp != 0x6000 && !sosc_filling_find(thread, 0x7000, 1));
	CHECK(sosc_filling_place(thread, 0x7010, 1) == sosc_filling_find(thread, 0x7010, 1) ||
	      !sosc_filling_find(thread, 0x7010, 1));
	thread->parked = sosc_parked_fallback; // others write there, too
	CHECK(!sosc_filling_place(thread, 0x6000, 1) && !sosc_filling_find(thread, 0x7020, 1));
	call("%d", 1);
	CHECK(!item_count && sosc_control->dropped[SOSC_DROP_WORDS] == dropped + 2);
}

// ---- random formats ----------------------------------------------------------

enum { VALUES = 9, ROOM = 512 };

static uint8_t rooms[VALUES][ROOM] __attribute__((aligned(16)));

static int scanned(const char *from, const char *format, ...)
{
	va_list list;
	int result;

	va_start(list, format);
	result = vsscanf(from, format, list);
	va_end(list);
	return result;
}

static const char *one_of(const char *const *from, uint32_t count, uint64_t *seed)
{
	return from[host_random(seed) % count];
}

// Each item is one whose memory the C library has changed, and has what is there.
static void random_format(uint64_t *seed)
{
	static const char *const pieces[] = {
		// these are known all of them
		"%d", "%i", "%u", "%x", "%hd", "%hhd", "%ld", "%lld", "%jd", "%zu", "%td", "%f",
		"%lf", "%Lf", "%g", "%s", "%5s", "%c", "%[a-z]", "%[^ ]", "%[]x]", "%*d", "%*s",
		"%n", "%hhn", "%ln", "%%", " ", "x", "%p", "%2d", "%ls", "%lc",
		// and of these some parts
		"%3c", "%1$d", "%3$s", "%2$n", "%", "%y", "%[", "%*", "%l", "%9", "%'d", "%a",
		"%5"};
	static const char *const inputs[] = {"1",  " 23", "0x1f", " word", " 2.5", "x",
					     "-7", "%",	  " ]x",  "abc",   "",	   " 1e9"};
	char format[200] = "", input[200] = "";
	bool is_known = host_random(seed) % 2;
	uint32_t known = is_known ? 33 : sizeof(pieces) / sizeof(*pieces);
	uint8_t untouched[ROOM];
	int result;

	for (uint64_t i = host_random(seed) % 12; i; i--)
		strcat(format, one_of(pieces, known, seed));
	for (uint64_t i = host_random(seed) % 12; i; i--)
		strcat(input, one_of(inputs, sizeof(inputs) / sizeof(*inputs), seed));
	memset(rooms, 0xa5, sizeof(rooms));
	memset(untouched, 0xa5, sizeof(untouched));
	for (int i = 0; i < VALUES; i++)
		words[i] = (uint64_t)rooms[i];
	for (int i = VALUES; i < 20; i++)
		words[i] = (uint64_t)rooms[VALUES - 1];
	begin(format, &scanf_op);
	result = scanned(input, format, rooms[0], rooms[1], rooms[2], rooms[3], rooms[4], rooms[5],
			 rooms[6], rooms[7], rooms[8], rooms[8], rooms[8], rooms[8], rooms[8]);
	end(result);
	for (int i = 0; i < item_count; i++) {
		uint32_t at = items[i].item - 2u;

		if (at >= VALUES - 1)
			continue;
		if (!memcmp(rooms[at], untouched, items[i].size ? items[i].size : 1)) {
			fprintf(stderr, "%s | %s: %d, nothing at %u\n", format, input, result, at);
			abort();
		}
		CHECK(items[i].flags & SOSC_DATA_TRUNCATED ||
		      !memcmp(items[i].bytes, rooms[at], items[i].size));
	}
	CHECK(!is_known || item_count >= result);
}

// Anything at all: nothing is read that is not there.
static void random_bytes(uint64_t *seed)
{
	static const char often[] = "%%%%%%*$0123456789dsc[]^mhlLn 'I";
	char *format = edge - 1 - host_random(seed) % 300;

	for (char *at = format; at < edge; at++)
		*at = host_random(seed) % 8 ? often[host_random(seed) % (sizeof(often) - 1)] :
					      (char)(host_random(seed) | 1);
	edge[-1] = host_random(seed) % 4 ? 0 : 'd';
	for (int i = 0; i < 20; i++)
		words[i] = host_random(seed) % 4 ? (uint64_t)(edge - host_random(seed) % 8000) :
						   host_random(seed) >> host_random(seed) % 64;
	call(format, (int)(host_random(seed) % 30) - 2);
}

int main(int argc, char **argv)
{
	uint64_t seed = strtoull(argv[1], NULL, 0);

	CHECK(argc == 3);
	captured_begin();
	host_plan->string_limit = 32;
	host_look();
	as_many_as_the_result_says();
	how_many_were_read();
	characters();
	wide_formats();
	lists();
	for (int i = atoi(argv[2]); i; i--) {
		random_format(&seed);
		random_bytes(&seed);
	}
	left();
	return 0;
}
