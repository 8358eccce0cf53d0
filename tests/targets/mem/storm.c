// SPDX-License-Identifier: Apache-2.0
// Threads that make calls and look at what these gave, while somebody else changes the slots through
// which they go; timers whose handler makes calls, too; children. A library for traced.py.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS_MAX = 128 };

static pthread_t threads[THREADS_MAX];
static int is_over, null, zero, thread_count;
static long made[THREADS_MAX], wrong, heard;

static void expect(int is_right)
{
	if (!is_right)
		__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

static void hear(int number)
{
	(void)number;
	expect(write(null, "h", 1) == 1);
	__atomic_fetch_add(&heard, 1, __ATOMIC_RELAXED);
}

static void blocks(char mark, unsigned size)
{
	char *block = malloc(size), *other;
	void *aligned;

	memset(block, mark, size);
	block = realloc(block, 2 * size);
	expect(block[0] == mark && block[size - 1] == mark);
	other = calloc(3, size);
	expect(other[3 * size - 1] == 0);
	expect(posix_memalign(&aligned, 64, size) == 0);
	free(block);
	free(other);
	free(aligned);
}

static void *work(void *data)
{
	long at = (long)data;
	char bytes[64];
	struct iovec parts[] = {{bytes, 10}, {bytes + 10, 20}};
	struct pollfd ready = {.fd = zero, .events = POLLIN};

	for (unsigned turn = 1; !__atomic_load_n(&is_over, __ATOMIC_RELAXED); turn++) {
		int file = open("/dev/null", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		blocks((char)at, turn % 3000 + 1);
		expect(write(file, bytes, 17) == 17 && read(zero, bytes, 33) == 33);
		expect(readv(zero, parts, 2) == 30 && poll(&ready, 1, 0) == 1);
		expect(close(file) == 0);
		expect(turn % 64 || dlsym(RTLD_DEFAULT, "printf"));
		made[at]++;
		usleep(300);
	}
	return NULL;
}

static void set_timer(int microseconds)
{
	struct itimerval often = {.it_interval.tv_usec = microseconds,
				  .it_value.tv_usec = microseconds};

	setitimer(ITIMER_VIRTUAL, &often, NULL);
}

/** Begin. 0: it did. */
int begin(int count)
{
	struct sigaction action = {.sa_handler = hear, .sa_flags = SA_RESTART};

	null = open("/dev/null", O_RDWR);
	zero = open("/dev/zero", O_RDONLY);
	if (sigaction(SIGVTALRM, &action, NULL))
		return -1;
	set_timer(500);
	for (thread_count = 0; thread_count < count; thread_count++)
		if (pthread_create(&threads[thread_count], NULL, work, (void *)(long)thread_count))
			return -1;
	return 0;
}

/** Have a child make a few calls; whether it ended as it should. */
int bear(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		blocks('c', 100);
		_exit(write(null, "child", 5) == 5 && !wrong ? 7 : 1);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

/** End; how many calls were wrong, and threads without a turn. */
long end(void)
{
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < thread_count; i++) {
		pthread_join(threads[i], NULL);
		wrong += !made[i];
	}
	set_timer(0);
	return wrong + !heard;
}
