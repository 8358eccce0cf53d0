// SPDX-License-Identifier: Apache-2.0
// A library that calls back, with frames of its own; with CONSTRUCTOR it takes a block when it is
// loaded: of so many bytes, by a function whose frame is so large.

typedef void *taker(long size);

#ifdef NAME
__attribute__((noinline)) static void *below(taker *next, long size)
{
	volatile long room[20];
	void *block;

	room[3] = size;
	block = next(room[3]);
	__asm__ volatile("" : : "r"(block) : "memory");
	return block;
}

void *NAME(taker *next, long size)
{
	void *block = below(next, size);

	__asm__ volatile("" : : "r"(block) : "memory");
	return block;
}
#else
void *take(long size);

__attribute__((noinline)) static void below(long size)
{
	volatile long room[CONSTRUCTOR];

	room[0] = size;
	take(room[0]);
	room[1] = size;
}

__attribute__((constructor)) static void begin(void)
{
	below(CONSTRUCTOR);
	__asm__ volatile("" : : : "memory");
}
#endif
