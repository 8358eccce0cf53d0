// SPDX-License-Identifier: Apache-2.0
// Says of each call what it passed, as a line of soscope has it, and nothing of results.
#include "lib_cxx_names.h"
#include <cstdio>
#include <new>

int main()
{
	static const char odd[] = "a\"b\n\0c";
	std::string text(odd, sizeof(odd) - 1), empty, large(100, 'x');

	alignas(shop::basket) static unsigned char rooms[2][sizeof(shop::basket)];
	printf("shop::basket::basket(%p, \"eve\", -3)\n", (void *)rooms[0]);
	shop::basket &b = *new (rooms[0]) shop::basket("eve", -3);
	printf("shop::basket::basket(%p, \"a\\\"b\\n\\000c\", 2.5)\n", (void *)rooms[1]);
	new (rooms[1]) shop::basket(text, 2.5);
	printf("shop::basket::count(%p, -1, 9)\n", (void *)&b);
	b.count(-1, 9);
	printf("shop::basket::add(%p, \"pear\", 12 ?)\n", (void *)&b);
	b.add("pear", 12);
	printf("shop::bar(-5, 0.25, \"\" ?)\n");
	shop::bar(-5, 0.25, empty);
	printf("shop::bar(5, -1e+100, \"%.32s\"... ?)\n", large.c_str());
	shop::bar(5, -1e100, large);
	printf("shop::next(7, -2 ?)\n");
	shop::next(shop::GREEN, -2);
	printf("plain('c', 4294967295, 1.5, -1, true)\n");
	plain('c', 4294967295u, 1.5f, -1, true);
	printf("many(1, 2, 3, 4, 5, 6, 7, \"a\\\"b\\n\\000c\")\n");
	many(1, 2, 3, 4, 5, 6, 7, text);
	printf("twice(21, \"why\")\n");
	twice(21, "why");
	printf("twice(0.5, nil)\n");
	twice(0.5, nullptr);
	// what is no string is not read
	unsigned long wild[4] = {16, 5};
	printf("ignoring(0x10)\n");
	ignoring(*reinterpret_cast<std::string *>(16));
	printf("ignoring(%p)\n", (void *)wild);
	ignoring(*reinterpret_cast<std::string *>(wild));
	printf("varied(\"first\", ...)\n");
	varied("first", 1, 2.0);
	fflush(stdout);
	// a hidden pointer to the result stands before what was passed
	return shop::titled("y").size() + joined(4, "x").size() + b.label(3).size() +
		       text_of(5).size() !=
	       10;
}
