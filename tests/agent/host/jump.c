// SPDX-License-Identifier: Apache-2.0
// jump FILE: for each line "AT TO BYTES" of FILE, in hexadecimal, the eight bytes that
// sosc_jump makes, or "none".
#include "host.h"

#include "base/jump.h"

int main(int argc, char **argv)
{
	uint8_t old[SOSC_EMPTY_FUNCTION], code[8];
	unsigned long at, to;
	char bytes[64];
	FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;

	CHECK(file);

	while (fscanf(file, "%lx %lx %63s", &at, &to, bytes) == 3) {
		for (int i = 0; i < SOSC_EMPTY_FUNCTION; i++) {
			unsigned int byte = 0;

			CHECK(sscanf(bytes + i * 2, "%2x", &byte) == 1);
			old[i] = (uint8_t)byte;
		}
		if (!sosc_jump(at, to, old, code)) {
			puts("none");
			continue;
		}
		for (int i = 0; i < 8; i++)
			printf("%02x", code[i]);
		puts("");
	}
	return 0;
}
