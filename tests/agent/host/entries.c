// SPDX-License-Identifier: Apache-2.0
// Room at a function's entry, as compilers and assemblers make it, and the calls that fill it.
#include "host.h"

#include "prof/entries.h"

#include <string.h>

enum { SIZE = 32 };

static struct sosc_room room_of(const char *hex)
{
	uint8_t code[SIZE];
	uint32_t size = 0;

	for (const char *at = hex; *at; at += 2, size++) {
		unsigned byte;

		CHECK(sscanf(at, "%2x", &byte) == 1);
		code[size] = (uint8_t)byte;
	}
	return sosc_room_at(code, code + size);
}

static void check_room(const char *hex, uint32_t size, bool is_split, bool is_other)
{
	struct sosc_room room = room_of(hex);

	if (room.size != size || room.is_split != is_split || room.is_other != is_other)
		host_fail(hex, (int)room.size, "room");
}

static void check_rooms(void)
{
	check_room("9090909090c3", 5, true, false); // gcc
	check_room("9090909090909090c3", 5, true, false);
	check_room("0f1f440008c3", 5, false, false); // clang, N=5
	check_room("0f1f840000020000c3", 8, false, false); // N=8
	check_room("662e0f1f840000020000c3", 10, false, false);
	check_room("6666666666662e0f1f840000020000c3", 15, false, false);
	check_room("0f1f40000f1f4000c3", 8, true, false);
	check_room("0f1f000f1f8000000000c3", 0, false, false); // ten bytes of several
	check_room("909090c39090", 0, false, false);
	check_room("9090", 0, false, false);
	check_room("0f1f4400", 0, false, true); // cut off
	check_room("cc90909090c3", 0, false, true); // a debugger's
	check_room("e800000000c3", 0, false, true);
	check_room("", 0, false, true);
}

static void check_calls(void)
{
	const uint64_t at = 0x7f0000001000;

	for (uint32_t size = 5; size <= SOSC_ROOM_MOST; size++) {
		uint8_t code[SIZE];

		memset(code, 0x90, sizeof(code));
		CHECK(sosc_write_call(code, size, at, at + 0x12345));
		CHECK(code[size] == 0x90 && code[size - 5] == 0xe8);
		CHECK(sosc_called_at(code, code + sizeof(code), at) == at + 0x12345);
		CHECK(sosc_called_at(code, code + size - 1, at) == 0);
		CHECK(sosc_write_call(code, size, at, at - 0x70000000));
		CHECK(sosc_called_at(code, code + size, at) == at - 0x70000000);
		CHECK(!sosc_write_call(code, size, at, at + 0x80000010));
		CHECK(!sosc_write_call(code, size, at, at - 0x80000010));
	}
}

int main(void)
{
	check_rooms();
	check_calls();
	return 0;
}
