// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread -rdynamic -ldl -lm; plugins=guest,guest_bad,guest_malloc
/*
 * Threads that do one thing until a line comes, and check that nothing disturbs them:
 *
 *     guest WHAT THREADS [KIND [SECONDS]]
 *
 * Where they wait for long, KIND is what the first thread waits for, and SECONDS for how long.
 * Prints how often guest_loads was counted up, and "wrong" and the place where something was not
 * as it should be. The first thread does the same as all others. A child waits for the line.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <immintrin.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MOST 100

volatile int guest_loads;

static volatile int *over; /* in shared memory */
static int wrong_line, kind, seconds;
static int pipes[MOST][2];

#define CHECK(TRUTH)                           \
	do {                                   \
		if (!(TRUTH) && !wrong_line) { \
			wrong_line = __LINE__; \
			wrong_errno = errno;   \
		}                              \
	} while (0)

static int wrong_errno;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void do_read(long index)
{
	unsigned int number, expected = 0;
	ssize_t got;

	(void)index;
	while ((got = read(pipes[index][0], &number, sizeof(number))) == sizeof(number))
		CHECK(number == expected++);
	CHECK(got == 0);
	CHECK(expected > 0);
}

static void do_poll(long index)
{
	struct pollfd end = {pipes[index][0], POLLIN, 0};

	while (!*over) {
		double before = now();

		CHECK(poll(&end, 0, 100) == 0);
		CHECK(now() - before >= 0.0999);
	}
}

static void do_nanosleep(long index)
{
	(void)index;
	while (!*over) {
		struct timespec span = {0, 100000000};
		double before = now();

		CHECK(nanosleep(&span, NULL) == 0);
		CHECK(now() - before >= 0.1);
	}
}

static void do_epoll(long index)
{
	struct epoll_event event;
	int epoll = epoll_create1(0);

	(void)index;
	while (!*over) {
		double before = now();

		CHECK(epoll_wait(epoll, &event, 1, 100) == 0);
		CHECK(now() - before >= 0.0989);
	}
	close(epoll);
}

static void do_cond(long index)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	(void)index;
	pthread_mutex_lock(&mutex);
	while (!*over) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 100000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		CHECK(pthread_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT);
	}
	pthread_mutex_unlock(&mutex);
}

static void do_sigwait(long index)
{
	struct timespec span = {0, 100000000};
	sigset_t set;

	(void)index;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	while (!*over) {
		double before = now();

		CHECK(sigtimedwait(&set, NULL, &span) == -1 && errno == EAGAIN);
		CHECK(now() - before >= 0.0999);
	}
}

static __attribute__((noinline)) unsigned long work(unsigned long value)
{
	int round;

	for (round = 0; round < 100000; round++) {
		value = value * 6364136223846793005ul + 1442695040888963407ul;
		__asm__ volatile("" ::: "memory");
	}
	return value;
}

// WORKS: now and then a thread does something with what it has got.
static void allocate(long index, int works)
{
	unsigned int seed = (unsigned int)index;

	while (!*over) {
		size_t size = (size_t)rand_r(&seed) % 3000 + 1;
		char *data = malloc(size);
		char *large = malloc(200000);

		memset(data, (int)size, size);
		data = realloc(data, size * 2);
		CHECK(data[size - 1] == (char)size);
		free(data);
		free(large);
		if (works && rand_r(&seed) % 8 == 0)
			seed ^= (unsigned int)work(size) & 1;
	}
}

static void do_malloc(long index)
{
	allocate(index, 1);
}

static void do_user(long index)
{
	unsigned long expected = work((unsigned long)index);

	while (!*over) {
		errno = (int)index;
		CHECK(work((unsigned long)index) == expected);
		CHECK(errno == index);
	}
}

/* A function with this in it is called each time, and not only once. */
#define EACH_TIME __asm__ volatile("" ::: "memory")

static __attribute__((noinline)) double sse(double start)
{
	double sums[6] = {start, 2, 3, 4, 5, 6};
	int round, index;

	EACH_TIME;
	for (round = 1; round < 20000; round++)
		for (index = 0; index < 6; index++)
			sums[index] += 1.0 / (round + index) + sums[(index + 1) % 6] * 1e-7;
	return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5];
}

__attribute__((target("avx"), noinline)) static double avx(double start)
{
	__m256d first = _mm256_set1_pd(start), second = _mm256_set_pd(1, 2, 3, 4);
	double out[4];
	int round;

	EACH_TIME;
	for (round = 1; round < 20000; round++) {
		__m256d part = _mm256_div_pd(second, _mm256_set1_pd(round));

		first = _mm256_add_pd(first, part);
		second = _mm256_add_pd(second, _mm256_mul_pd(first, _mm256_set1_pd(1e-7)));
	}
	_mm256_storeu_pd(out, _mm256_add_pd(first, second));
	return out[0] + out[1] + out[2] + out[3];
}

static __attribute__((noinline)) long double x87(long double start)
{
	long double a = start, b = 1, c = 2;
	int round;

	EACH_TIME;
	for (round = 1; round < 20000; round++) {
		a += b / round;
		b += c * 1e-7L;
		c += a / (round + 7);
	}
	return a + b + c;
}

static void do_float(long index)
{
	int has_avx = __builtin_cpu_supports("avx");
	double first = sse(index), second = has_avx ? avx(index) : 0;
	long double third = x87(index);

	while (!*over) {
		CHECK(sse(index) == first);
		CHECK(!has_avx || avx(index) == second);
		CHECK(x87(index) == third);
	}
}

static void do_dlopen(long index)
{
	if (!index) {
		do_user(0);
		return;
	}
	while (!*over) {
		void *handle = dlopen("libm.so.6", RTLD_NOW);
		void *other = dlopen("libutil.so.1", RTLD_NOW);

		CHECK(handle && dlsym(handle, "cos"));
		dlclose(handle);
		if (other)
			dlclose(other);
	}
}

/* All wait for one long time, and tell from when until when that was (ns). */
static void do_long(long index)
{
	struct timespec span = {seconds, 0}, until;
	struct epoll_event event;
	double before = now();
	int epoll = epoll_create1(0);
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	switch ((index + kind) % 4) {
	case 0:
		CHECK(nanosleep(&span, NULL) == 0);
		break;
	case 1:
		CHECK(poll(NULL, 0, seconds * 1000) == 0);
		break;
	case 2:
		CHECK(epoll_wait(epoll, &event, 1, seconds * 1000) == 0);
		break;
	default:
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += seconds;
		pthread_mutex_lock(&mutex);
		CHECK(pthread_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT);
		pthread_mutex_unlock(&mutex);
	}
	fprintf(stderr, "%.0f %.0f\n", before * 1e9, now() * 1e9);
	close(epoll);
	while (!*over)
		usleep(1000);
}

extern char __executable_start, etext;

static void pause_in_handler(int number, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;
	greg_t at = context->uc_mcontext.gregs[REG_RIP];
	struct timespec span = {0, 30000000};

	(void)number;
	(void)info;
	if (at >= (greg_t)&__executable_start && at < (greg_t)&etext)
		return;
	do {
		nanosleep(&span, NULL);
	} while (!kind && !*over);
}

/*
 * The first thread is in a handler that has interrupted the C library: KIND 0 until the end, 1 for
 * most of the time. Others, if there are any, wait.
 */
static void do_handler(long index)
{
	struct itimerval timer = {{0, 40000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
	struct sigaction action = {0};

	if (index) {
		sigset_t set;

		sigfillset(&set);
		pthread_sigmask(SIG_BLOCK, &set, NULL);
		do_nanosleep(index);
		return;
	}
	action.sa_sigaction = pause_in_handler;
	action.sa_flags = SA_RESTART | SA_SIGINFO;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	allocate(0, 0);
	setitimer(ITIMER_REAL, &none, NULL);
}

static const struct {
	const char *name;
	void (*function)(long index);
} ways[] = {
	{"read", do_read},   {"poll", do_poll},	      {"nanosleep", do_nanosleep},
	{"epoll", do_epoll}, {"cond", do_cond},	      {"sigwait", do_sigwait},
	{"user", do_user},   {"malloc", do_malloc},   {"float", do_float},
	{"long", do_long},   {"handler", do_handler}, {"dlopen", do_dlopen},
};

static void (*way)(long index);

static void *begin(void *argument)
{
	way((long)argument);
	return NULL;
}

/* Write numbers to all pipes until a line or the end of input comes. */
static void feed(int count)
{
	struct pollfd input = {0, POLLIN, 0};
	unsigned int number = 0;
	int index;

	while (poll(&input, 1, 1) == 0) {
		for (index = 0; index < count; index++)
			if (write(pipes[index][1], &number, sizeof(number)) < 0)
				_exit(1);
		number++;
	}
	*over = 1;
	_exit(0);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 1, index;
	pthread_t threads[MOST];

	for (index = 0; index < (int)(sizeof(ways) / sizeof(*ways)); index++)
		if (!strcmp(argv[1], ways[index].name))
			way = ways[index].function;
	if (!way || count > MOST)
		return 2;
	kind = argc > 3 ? atoi(argv[3]) : 0;
	seconds = argc > 4 ? atoi(argv[4]) : 0;
	over = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (index = 0; index < count; index++)
		if (pipe(pipes[index]))
			return 2;
	signal(SIGPIPE, SIG_IGN);
	if (!fork())
		feed(way == do_read ? count : 0);
	for (index = 0; index < count; index++)
		close(pipes[index][1]);
	puts("ready");
	fflush(stdout);
	for (index = 1; index < count; index++)
		pthread_create(&threads[index], NULL, begin, (void *)(long)index);
	way(0);
	for (index = 1; index < count; index++)
		pthread_join(threads[index], NULL);
	if (wrong_line)
		printf("wrong at line %d, errno %d\n", wrong_line, wrong_errno);
	printf("loads %d\n", guest_loads);
	return 7;
}
