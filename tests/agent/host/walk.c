// SPDX-License-Identifier: Apache-2.0
// walk, view, memo: stacks are those that the C library finds, on the stacks of threads, of coroutines and
// of signal handlers, however often they change below what a memo keeps; one number for each.
#include "host.h"

#include "image/image.h"
#include "base/instrument.h"
#include "stack/walkcache.h"
#include "stack/walk.h"
#include "entry/start.h"
#include "thread/thread.h"

#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum {
	BITS = 14,
	WORDS = 1 << 21,
	FRAMES = 60,
	TURNS = 1500,
	THREADS = 6,
	COROUTINES = 3,
	ROUNDS = 4,
	STACK_SIZE = 1 << 16,
	DEEP = 3 * SOSC_BLOCK_FRAMES,
};

// A memo may read any word that lies on the stack now, also between the variables of a function.
#define PLAIN __attribute__((noinline, no_sanitize("address")))

static struct sosc_blocks *own;
static const uint64_t *words;
static __thread struct sosc_view view;
static __thread uint64_t seed;
static uint64_t walks, cuts;

// ---- a walk ------------------------------------------------------------------------

// A place that a signal has interrupted is told as the address behind it, and where the handler returns to
// is nobody's frame.
static int without_handlers(void **frames, int count)
{
	static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	int kept = 0;

	for (int i = 0; i < count; i++) {
		if (i + 1 < count && !memcmp(frames[i], sigreturn, sizeof(sigreturn)))
			frames[kept++] = (uint8_t *)frames[++i] + 1;
		else
			frames[kept++] = frames[i];
	}
	return kept;
}

// The C library's own frames lie in front of the caller's return address, and it may know more of those
// at the end.
static void compare(uint64_t ret, uint32_t number)
{
	void *frames[DEEP + 16];
	int count = backtrace(frames, DEEP + 16), first = 0;
	uint64_t head = words[number];
	uint32_t found = (uint8_t)head;

	count = without_handlers(frames, count);
	while (first < count && (uint64_t)frames[first] != ret)
		first++;
	CHECK(first < count && found <= (uint32_t)(count - first));
	for (uint32_t i = 0; i < found; i++)
		CHECK(words[number + 1 + i] == (uint64_t)frames[first + (int)i]);
	if (head >> SOSC_STACK_CUT & 1)
		CHECK(found == SOSC_BLOCK_FRAMES && ++cuts);
	else
		CHECK(found + 1 >= (uint32_t)(count - first));
	__atomic_fetch_add(&walks, 1, __ATOMIC_RELAXED);
}

static PLAIN void call(void)
{
	const uint64_t *frame = __builtin_frame_address(0);
	struct sosc_stack_call wanted = {
		.thread = sosc_thread_self(),
		.view = &view,
		.sp = (uint64_t)&frame[1],
		.fp = frame[0],
	};
	uint32_t number, again;

	if (!sosc_view_has(&view, wanted.sp))
		sosc_view_find(&view, wanted.thread, wanted.sp);
	number = sosc_stack_walk(&wanted, SOSC_API_MALLOC);
	again = sosc_stack_walk(&wanted, SOSC_API_MALLOC);
	CHECK(number && number == again);
	CHECK(words[number + 1] == frame[1]);
	compare(frame[1], number);
}

// ---- stacks that change ------------------------------------------------------------

static void wander(uint32_t depth);

static PLAIN void small(uint32_t depth)
{
	wander(depth);
	__asm__ volatile("");
}

static PLAIN void aligned(uint32_t depth)
{
	volatile char much[96] __attribute__((aligned(64)));

	much[0] = (char)depth;
	wander(depth);
	much[1] = much[0];
}

static PLAIN void variable(uint32_t depth)
{
	volatile char *some = alloca(16 + host_random(&seed) % 512);

	some[0] = 1;
	wander(depth);
	some[1] = 2;
}

static PLAIN void large(uint32_t depth)
{
	volatile char much[5000];

	much[0] = (char)depth;
	wander(depth);
	much[4999] = much[0];
}

static PLAIN void no_pointer(uint32_t depth)
{
	__asm__ volatile("" ::: "rbx", "r12", "r13");
	wander(depth);
	__asm__ volatile("" ::: "rbx", "r12");
}

static void (*const ways[])(uint32_t) = {small, aligned, variable, large, no_pointer};

// One of the ways on, most often the one that was taken the last time.
static PLAIN void wander(uint32_t depth)
{
	uint64_t random = host_random(&seed);

	if (!depth) {
		call();
		if (random & 1)
			call();
		return;
	}
	ways[random % 8 ? depth % 5 : random / 8 % 5](depth - 1);
	if (random % 4 == 1)
		call();
}

static PLAIN void wander_often(uint32_t turns)
{
	for (uint32_t i = 0; i < turns; i++)
		wander((uint32_t)(host_random(&seed) % 6));
}

static void begin(uint64_t number)
{
	seed = number + 1;
	view = (struct sosc_view){.memos = sosc_memos_of(sosc_thread_self())};
	CHECK(view.memos);
}

// ---- stacks that come and go -------------------------------------------------------

static __thread ucontext_t main_context, contexts[COROUTINES];

static PLAIN void coroutine(int number)
{
	for (;;) {
		wander(host_random(&seed) % 4);
		CHECK(!swapcontext(&contexts[number], &main_context));
	}
}

// Each has a page of its own at the end of its stack, and another mapping above that.
static PLAIN void check_coroutines(void)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint8_t *stacks[COROUTINES];

		for (uint32_t i = 0; i < COROUTINES; i++) {
			stacks[i] = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			CHECK(stacks[i] != MAP_FAILED);
			if (round % 2)
				CHECK(!munmap(stacks[i] + STACK_SIZE, STACK_SIZE));
			CHECK(!getcontext(&contexts[i]));
			contexts[i].uc_stack.ss_sp = stacks[i];
			contexts[i].uc_stack.ss_size = STACK_SIZE;
			contexts[i].uc_link = NULL;
			makecontext(&contexts[i], (void (*)(void))coroutine, 1, (int)i);
		}
		for (uint32_t i = 0; i < TURNS / 16; i++) {
			CHECK(!swapcontext(&main_context, &contexts[i % COROUTINES]));
			wander(1);
		}
		for (uint32_t i = 0; i < COROUTINES; i++)
			CHECK(!munmap(stacks[i], round % 2 ? STACK_SIZE : 2 * STACK_SIZE));
	}
}

static PLAIN void *in_thread(void *number)
{
	begin((uint64_t)number);
	wander_often(TURNS / 4);
	if (!number)
		check_coroutines();
	wander_often(TURNS / 4);
	sosc_memos_end(sosc_thread_self());
	return NULL;
}

static void check_threads(void)
{
	pthread_t threads[THREADS];

	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, in_thread, (void *)i));
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static PLAIN void go_down(uint32_t levels)
{
	if (levels)
		go_down(levels - 1);
	else
		call();
	__asm__ volatile("");
}

static PLAIN void check_depths(void)
{
	uint64_t before = cuts;

	for (uint32_t levels = 0; levels < DEEP - 20; levels += 1 + levels / 8)
		go_down(levels);
	CHECK(cuts > before);
}

static PLAIN void handle(int signal)
{
	(void)signal;
	wander(2);
}

static PLAIN void interrupt(uint32_t depth)
{
	if (depth)
		interrupt(depth - 1);
	else
		CHECK(!raise(SIGUSR1));
	__asm__ volatile("");
}

static PLAIN void check_handlers(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		stack_t stack = {.ss_sp = malloc(STACK_SIZE), .ss_size = STACK_SIZE};
		struct sigaction action = {.sa_handler = handle, .sa_flags = i ? SA_ONSTACK : 0};

		CHECK(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &action, NULL));
		for (uint32_t k = 0; k < 60; k++)
			interrupt(k % 7);
		stack.ss_flags = SS_DISABLE;
		CHECK(!sigaltstack(&stack, NULL));
		free(stack.ss_sp);
	}
}

// ---- in between --------------------------------------------------------------------

static volatile uint64_t interrupts;

static PLAIN void on_alarm(int signal)
{
	(void)signal;
	if (!view.memos)
		return;
	interrupts++;
	wander(interrupts % 3);
}

static PLAIN void *in_interrupted(void *number)
{
	begin((uint64_t)number);
	for (uint32_t i = 0; i < TURNS / 2 || !interrupts; i++)
		wander((uint32_t)(i % 5));
	view.memos = NULL;
	return NULL;
}

static void check_interrupted(void)
{
	pthread_t threads[2];

	for (uint64_t i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, in_interrupted, (void *)i));
	host_interrupt(on_alarm);
	for (uint32_t i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
	host_interrupt(NULL);
}

static void see_images(void)
{
	for (struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		struct sosc_loaded *image = &sosc_loaded[sosc_loaded_count];

		image->map = map;
		if (!sosc_image_parse(image, NULL))
			sosc_loaded_count++;
	}
	CHECK(sosc_loaded_count > 2);
}

static uint64_t end_of_stack(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512];

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && strstr(line, "[stack]"))
			break;
	fclose(maps);
	CHECK(start < (uint64_t)&maps && (uint64_t)&maps < end);
	return end;
}

int main(void)
{
	static struct {
		struct sosc_blocks own;
		uint64_t buckets[1 << BITS];
		uint64_t words[WORDS];
	} table = {
		.own = {.bits = BITS,
			.words = WORDS,
			.words_used = 1,
			.first_bucket = offsetof(__typeof__(table), buckets),
			.first_word = offsetof(__typeof__(table), words)},
	};

	(void)host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	host_own(&table, sizeof(table));
	see_images();
	sosc_base = 1; // no function here is the agent's
	sosc_stack_end = end_of_stack();
	CHECK(sosc_stacks_start(SOSC_INSTRUMENT_BLOCKS, &own));
	words = (uint64_t *)((uint64_t)own + own->first_word);
	begin(0);
	wander_often(TURNS);
	check_depths();
	check_threads();
	check_coroutines();
	check_handlers();
	check_interrupted();
	view.memos = NULL; // no memory for any
	wander_often(TURNS / 8);
	CHECK(walks > TURNS && !own->stacks_lost);
	return 0;
}
