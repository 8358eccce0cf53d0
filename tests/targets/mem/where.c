// SPDX-License-Identifier: Apache-2.0
// Programs whose memory is known: each says what its own malloc counts, and waits for a line.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20, THREADS = 6, MANY = 40000 };

static void *kept[MANY];
static size_t mapped;

// ---- what it says ----

static char out[1 << 16]; // stdio allocates nothing then

static void say(void)
{
#ifdef __GLIBC__
	struct mallinfo2 info = mallinfo2();
	printf("mallinfo %zu %zu %zu %zu %zu\n", info.arena, info.uordblks, info.fordblks,
	       info.hblks, info.hblkhd);
#endif
	printf("mapped %zu\nready\n", mapped);
	fflush(stdout);
}

static void wait_for_line(void)
{
	char letter;
	while (read(0, &letter, 1) == 1 && letter != '\n')
		;
}

static void *filled(size_t size)
{
	void *block = malloc(size);
	memset(block, 0x5a, size);
	return block;
}

static char *mapped_anew(size_t size, int flags)
{
	void *area = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	return area == MAP_FAILED ? abort(), NULL : area;
}

// ---- retention by the arenas of threads ----

static pthread_barrier_t barrier;

static void *fill_and_free(void *argument)
{
	enum { BLOCKS = 4000 };
	void **blocks = argument;
	for (int index = 0; index < BLOCKS; index++)
		blocks[index] = filled(2000);
	for (int index = 0; index < BLOCKS - 1; index++)
		free(blocks[index]); // the last one keeps the top from being given back
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void arenas(void)
{
	static void *blocks[THREADS][4000];
	pthread_t threads[THREADS];
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int index = 0; index < THREADS; index++)
		pthread_create(&threads[index], NULL, fill_and_free, blocks[index]);
	pthread_barrier_wait(&barrier);
	say();
	wait_for_line();
	pthread_barrier_wait(&barrier);
	for (int index = 0; index < THREADS; index++)
		pthread_join(threads[index], NULL);
	say();
	wait_for_line();
}

// ---- a heap of brk whose top is in use ----

static void pinned(void)
{
	for (int index = 0; index < 20000; index++)
		kept[index] = filled(1500);
	void *pin = filled(100);
	for (int index = 0; index < 20000; index++)
		free(kept[index]);
	printf("pin %p %zu\n", pin, malloc_usable_size(pin));
	say();
	wait_for_line();
	free(pin);
}

// ---- small blocks between holes: nothing that malloc_trim could give back ----

static void holes(void)
{
	for (int index = 0; index < MANY; index++)
		kept[index] = filled(200 + 16 * (index % 50));
	for (int index = 0; index < MANY; index += 2)
		free(kept[index]);
	say();
	wait_for_line();
}

// ---- fast bins and the cache of a thread ----

static void fast(void)
{
	for (int index = 0; index < 20000; index++)
		kept[index] = filled(64 + 16 * (index % 3));
	for (int index = 0; index < 19990; index++)
		free(kept[index]);
	say();
	wait_for_line();
}

static void scattered(void) // fast chunks among blocks of all sizes
{
	for (size_t index = 0; index < MANY; index++)
		kept[index] = filled(index % 2 ? 200 + index % 1700 : 16 + index % 96);
	for (size_t index = 0; index < MANY; index += 2)
		free(kept[index]);
	say();
	wait_for_line();
}

// ---- big buffers that another thread frees ----

static void *free_all(void *argument)
{
	void **blocks = argument;
	for (int index = 0; index < 400; index++)
		free(blocks[index]);
	return NULL;
}

static void handed(void)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 32 * MIB); // as it becomes of itself when big blocks come and go
#endif
	for (int index = 0; index < 400; index++)
		kept[index] = filled(100 * KIB);
	void *last = filled(100);
	pthread_t thread;
	pthread_create(&thread, NULL, free_all, kept);
	pthread_join(thread, NULL);
	say();
	wait_for_line();
	free(last);
}

// ---- leaks ----

static void leak_malloc(void)
{
	say();
	for (int index = 0;; index++) {
		free(filled(5000));
		kept[index % MANY] = filled(3000);
		usleep(500);
	}
}

static void leak_mmap(void)
{
	say();
	for (;;) {
		char *area = mapped_anew(256 * KIB, MAP_PRIVATE);
		memset(area, 1, 256 * KIB);
		mapped += 256 * KIB;
		usleep(10000);
	}
}

static volatile int filled_blocks; // of threads that turn them over

static void *turn_over(void *argument)
{
	static __thread void *blocks[5000];
	uint32_t state = (uint32_t)(uintptr_t)argument;
	for (;;) {
		state = state * 1103515245 + 12345;
		size_t index = (state >> 8) % 5000;
		if (!blocks[index])
			__atomic_fetch_add(&filled_blocks, 1, __ATOMIC_RELAXED);
		free(blocks[index]);
		blocks[index] = filled(16 + (state >> 16) % 3000);
	}
	return NULL;
}

static void busy(void) // three threads that never rest, with 7 MiB each
{
	for (uintptr_t index = 1; index <= 3; index++) {
		pthread_t thread;
		pthread_create(&thread, NULL, turn_over, (void *)index);
	}
	while (filled_blocks < 3 * 5000)
		usleep(1000);
	say();
	wait_for_line();
}

static long now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

// What is in use stays the same, the free memory grows. However slow the machine is, blocks are
// only in use for a twentieth of the time.
static void grow_free(void)
{
	say();
	for (size_t count = 1000;; count += 300) {
		size_t some = count < MANY ? count : MANY;
		long begin = now_us();
		for (size_t index = 0; index < some; index++)
			kept[index] = filled(1000);
		void *pin = filled(40);
		for (size_t index = 0; index < some; index++)
			free(kept[index]);
		usleep(20 * (now_us() - begin));
		(void)pin;
	}
}

// ---- all kinds of memory ----

static void kinds(void)
{
	for (int index = 0; index < 20; index++)
		kept[index] = filled(400 * KIB); // mapped by malloc
	kept[20] = aligned_alloc(64 * KIB, 512 * KIB);
	memset(kept[20], 1, 512 * KIB);
	char *shared = mapped_anew(3 * MIB, MAP_SHARED);
	memset(shared, 1, 3 * MIB);
	char *own = mapped_anew(5 * MIB, MAP_PRIVATE);
	memset(own, 1, 5 * MIB);
	mapped = 5 * MIB;
	char stack[2 * MIB];
	memset(stack, 1, sizeof stack);
	__asm__ volatile("" : : "r"(stack) : "memory");
	say();
	wait_for_line();
}

static void foreign(void) // somebody else's sbrk in the middle of the heap
{
	for (int index = 0; index < 2000; index++)
		kept[index] = filled(1000);
	memset(sbrk(100 * KIB + 4), 0xff, 100 * KIB);
	for (int index = 2000; index < 4000; index++)
		kept[index] = filled(1000);
	for (int index = 0; index < 4000; index += 3)
		free(kept[index]);
	say();
	wait_for_line();
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} all[] = {
		{"arenas", arenas},	  {"pinned", pinned},
		{"holes", holes},	  {"handed", handed},
		{"kinds", kinds},	  {"foreign", foreign},
		{"fast", fast},		  {"leak_malloc", leak_malloc},
		{"leak_mmap", leak_mmap}, {"busy", busy},
		{"scattered", scattered}, {"grow_free", grow_free},
	};
	if (count < 2)
		return 2;
	setvbuf(stdout, out, _IOFBF, sizeof out);
	for (size_t index = 0; index < sizeof all / sizeof *all; index++)
		if (strcmp(all[index].name, words[1]) == 0) {
			all[index].function();
			return 0;
		}
	return 2;
}
