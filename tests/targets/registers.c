// SPDX-License-Identifier: Apache-2.0
// target: libs=regs; sources=registers_call.S
// Every register a function may be called with or return: integers, the static
// chain r10, al, whole vectors and masks, control words and the direction flag.
#include "regs.h"
#include "truth.h"

#include <stdio.h>
#include <string.h>

void call_with(const struct regs *in, struct regs *out, int level);

COUNTED(fregs);

enum { DIRECTION = 0x400, FLAGS = 0x202, CONTROL_WORD = 0x0b7f, MXCSR = 0xffc0 };

static int level_of_cpu(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512bw"))
		return 2;
	return __builtin_cpu_supports("avx2") ? 1 : 0;
}

static void once(int round, int level, unsigned long flags)
{
	static struct regs in, out;
	const int width = 16 << level;
	unsigned char *bytes = (unsigned char *)&in;
	for (unsigned i = 0; i < sizeof in; i++)
		bytes[i] = (unsigned char)(i * 31 + round * 17 + 1);
	in.flags = flags;
	in.mxcsr = MXCSR;
	in.cw = CONTROL_WORD;
	COUNT(fregs);
	call_with(&in, &out, level);

	const struct regs *seen = fregs_seen();
	for (int i = 0; i < 14; i++)
		CHECK(seen->gpr[i] == in.gpr[i]);
	CHECK((seen->flags & DIRECTION) == (flags & DIRECTION));
	CHECK(seen->mxcsr == in.mxcsr && seen->cw == in.cw);
	for (int i = 0; i < (level == 2 ? 32 : 16); i++)
		CHECK(!memcmp(seen->vector[i], in.vector[i], width));
	CHECK(level < 2 || !memcmp(seen->k, in.k, sizeof in.k));

	CHECK(out.gpr[0] == 0x1111222233334444 && out.gpr[3] == 0x5555666677778888);
	CHECK(out.gpr[1] == in.gpr[1]); // rbx
	CHECK(out.gpr[6] == in.gpr[6]); // rbp
	for (int i = 10; i < 14; i++) // r12 to r15
		CHECK(out.gpr[i] == in.gpr[i]);
	CHECK((out.flags & DIRECTION) == (flags & DIRECTION));
	CHECK(out.mxcsr == in.mxcsr && out.cw == in.cw);
	for (int v = 0; v < 2; v++)
		for (int i = 0; i < width / 4; i++) {
			unsigned word;
			memcpy(&word, &out.vector[v][4 * i], sizeof word);
			CHECK(word == 512u - 16 * v - i);
		}
	double x87[2];
	memcpy(x87, out.k, sizeof x87);
	CHECK(x87[0] == 1.25 && x87[1] == -2.5);
}

int main(void)
{
	const int level = level_of_cpu();
	static struct regs in = {.flags = FLAGS, .mxcsr = MXCSR, .cw = CONTROL_WORD}, out;
	COUNT(fregs); // the loader's lazy resolver itself keeps no r10
	call_with(&in, &out, 0);
	for (int l = 0; l <= level; l++) {
		fregs_level(l);
		for (int round = 0; round < 50; round++)
			once(round, l, FLAGS | (round & 1 ? DIRECTION : 0));
	}
	REPORT(fregs);
	puts("registers right");
	return 0;
}
