// SPDX-License-Identifier: Apache-2.0
// decode lengths CODE PAIRS: prints "offset expected got" where the decoder does not agree
// with PAIRS, u32 offset and length each (0 = to be refused).
// decode garbage SEED: any bytes, in any room.
#include "host.h"

#include "base/code_x86_64_decode.h"

static int lengths(const char *code_path, const char *pairs_path)
{
	uint64_t size, pairs_size;
	uint8_t *code = host_read(code_path, &size);
	const uint32_t *pair = host_read(pairs_path, &pairs_size);

	for (uint64_t i = 0; i < pairs_size / 8; i++, pair += 2) {
		struct sosc_insn insn;
		bool known = sosc_decode(code + pair[0], size - pair[0], &insn);

		CHECK(!known || insn.displacement_at + 4 * insn.rip <= insn.length);
		if ((known ? insn.length : 0) != pair[1])
			printf("%u %u %u\n", pair[0], pair[1], known ? insn.length : 0);
	}
	return 0;
}

static int garbage(uint64_t seed)
{
	for (int round = 0; round < 300000; round++) {
		uint64_t room = host_random(&seed) % 20;
		uint8_t *code = malloc(room ? room : 1);
		struct sosc_insn insn;

		for (uint64_t i = 0; i < room; i++)
			code[i] = (uint8_t)(host_random(&seed) >> 32);
		if (round % 4 == 0 && room) // an encoding with much behind it
			code[0] = (const uint8_t[]){0x62, 0xc4, 0xc5, 0x0f}[round / 4 % 4];
		if (sosc_decode(code, room, &insn))
			CHECK(insn.length >= 1 && insn.length <= room && insn.length <= 15 &&
			      insn.reg < 16 && insn.rm < 16 && insn.index < 16);
		free(code);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return lengths(argv[2], argv[3]);
	return garbage(strtoull(argv[2], NULL, 0));
}
