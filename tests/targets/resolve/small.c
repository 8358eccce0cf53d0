// SPDX-License-Identifier: Apache-2.0
// A program, or a loader, of 32 bits without a C library: one line about itself for each read.

int exported = 42;
static int hidden = 43;

static int call(int number, int a, const void *b, int c)
{
	int result;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "0"(number), "b"(a), "c"(b), "d"(c)
			 : "memory");
	return result;
}

static int private_code(int x)
{
	return x + hidden;
}

int public_code(int x)
{
	return private_code(x) * 2;
}

static void say(const char *name, const void *addr)
{
	char line[64];
	int at = 0;
	for (; name[at]; at++)
		line[at] = name[at];
	line[at++] = ' ';
	for (int shift = 28; shift >= 0; shift -= 4)
		line[at++] = "0123456789abcdef"[(unsigned)addr >> shift & 15];
	line[at++] = '\n';
	call(4, 1, line, at);
}

__attribute__((visibility("protected"))) void _start(void)
{
	char word[64];
	call(4, 1, "ready\n", 6);
	for (int turn = 0; call(3, 0, word, sizeof(word)) > 0; turn++) {
		switch (turn & 3) {
		case 0:
			say("public_code", (const void *)public_code);
			break;
		case 1:
			say("exported", &exported);
			break;
		case 2:
			say("hidden", &hidden);
			break;
		default:
			say("private_code", (const void *)private_code);
		}
	}
	call(1, 0, 0, 0);
}
