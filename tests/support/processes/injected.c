// SPDX-License-Identifier: Apache-2.0
// Says of each of its calls what came of it: a letter for each in a line for each function.
//
//	injected rounds N        one thread; then N children one after the other, where there are any
//	injected threads T N     T threads of N calls each: how many failed
//	injected wait            until a line comes in: how many failed
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int failed, wrong;

// '.': it did what it is for; 'F': it failed as its manual says; 'W': anything else
static char allocate(void)
{
	errno = EXDEV;
	char *p = calloc(3, 5);
	char what = 'W';

	if (!p)
		return errno == ENOMEM ? 'F' : 'W';
	what = errno == EXDEV && !p[14] ? '.' : 'W';
	free(p);
	return what;
}

static char open_file(void)
{
	errno = EXDEV;
	int fd = open("/dev/null", O_RDONLY);

	if (fd == -1)
		return errno == EACCES ? 'F' : 'W';
	close(fd);
	return errno == EXDEV ? '.' : 'W';
}

static char align(void)
{
	void *p = &p;
	errno = EXDEV;
	int error = posix_memalign(&p, 64, 100);

	if (error)
		return error == ENOMEM && errno == EXDEV && p == &p ? 'F' : 'W';
	free(p);
	return errno == EXDEV ? '.' : 'W';
}

static void rounds(const char *who, int count)
{
	static char (*const calls[])(void) = {allocate, open_file, align};
	static const char *const names[] = {"calloc", "open", "posix_memalign"};

	for (int i = 0; i < 3; i++) {
		char line[200] = "";

		for (int n = 0; n < count; n++)
			line[n] = calls[i]();
		printf("%s %s %s\n", who, names[i], line);
	}
	fflush(stdout);
}

static void *many(void *count)
{
	for (long n = 0; n < (long)count; n++) {
		char what = allocate();

		if (what != '.')
			__atomic_fetch_add(what == 'F' ? &failed : &wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long count = argc > 2 ? atol(argv[argc - 1]) : 0;

	if (!strcmp(argv[1], "rounds")) {
		rounds("main", 40);
		for (long i = 0; i < count; i++) {
			pid_t child = fork();

			if (!child) {
				rounds("child", 40);
				_exit(0);
			}
			waitpid(child, NULL, 0);
		}
	} else if (!strcmp(argv[1], "threads")) {
		pthread_t threads[16];
		int several = atoi(argv[2]);

		for (int i = 0; i < several; i++)
			pthread_create(&threads[i], NULL, many, (void *)count);
		for (int i = 0; i < several; i++)
			pthread_join(threads[i], NULL);
		printf("%d %d\n", failed, wrong);
	} else {
		struct pollfd input = {0, POLLIN, 0};

		puts("ready");
		fflush(stdout);
		while (poll(&input, 1, 1) == 0)
			many((void *)1L);
		printf("%d %d\n", failed, wrong);
	}
	return 5;
}
