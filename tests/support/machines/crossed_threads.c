// SPDX-License-Identifier: Apache-2.0
// Threads that call a library's functions, in the ways that its first argument names.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int together(int);
int through(int (*)(int), int);
void account(void);

enum { THREADS = 4 };

static pthread_barrier_t barrier;
static volatile int is_over;
static int calls;

static void *calling(void *given)
{
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < calls; i++)
		together(i);
	return given;
}

static void *spinning(void *given)
{
	while (!is_over)
		;
	together(-1);
	return given;
}

static void *endless(void *given)
{
	for (;;)
		together(1);
	return given;
}

static int leave(int n)
{
	if (!n)
		pthread_exit(NULL);
	return through(leave, n - 1);
}

static void *leaving(void *given)
{
	through(leave, 3);
	return given;
}

static int stay(int n)
{
	for (;;)
		pause();
	return n;
}

static void *staying(void *given)
{
	through(stay, 0);
	return given;
}

static int answers;

static void heard(int number)
{
	together(number);
	__atomic_fetch_add(&answers, 1, __ATOMIC_SEQ_CST);
}

static int answered(void)
{
	return __atomic_load_n(&answers, __ATOMIC_SEQ_CST);
}

static void *waiting(void *given)
{
	int end = *(int *)given;
	char byte;

	while (read(end, &byte, 1) < 0 && errno == EINTR)
		;
	return given;
}

static void start(pthread_t *threads, void *(*run)(void *), void *given)
{
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, given);
}

static void join(pthread_t *threads)
{
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

// All make the same first call at once, while another one never waits for anything.
static void race(pthread_t *threads)
{
	pthread_t spinner;

	pthread_create(&spinner, NULL, spinning, NULL);
	start(threads, calling, NULL);
	join(threads);
	is_over = 1;
	pthread_join(spinner, NULL);
}

// Threads end inside of calls: by themselves, and by others.
static void ends(pthread_t *threads)
{
	start(threads, leaving, NULL);
	join(threads);
	start(threads, staying, NULL);
	usleep(50000);
	for (int i = 0; i < THREADS; i++)
		pthread_cancel(threads[i]);
	join(threads);
	together(0);
}

// Signals for one thread each, some of which wait in system calls.
static void signals(pthread_t *threads)
{
	int ends[2] = {-1, -1};
	struct sigaction action = {.sa_handler = heard};

	sigaction(SIGUSR1, &action, NULL);
	if (pipe(ends))
		exit(1);
	start(threads, waiting, &ends[0]);
	for (int i = 0; i < calls; i++)
		for (int j = 0; j < THREADS; j++) {
			pthread_kill(threads[j], SIGUSR1);
			// a second one would be the same, before the first is heard
			for (int ms = 0; ms < 20000 && answered() <= i * THREADS + j; ms++)
				usleep(1000);
		}
	if (write(ends[1], "1234", THREADS) != THREADS)
		exit(1);
	join(threads);
}

// A child is made while others make calls.
static void forks(pthread_t *threads)
{
	int status = 0;
	pid_t child;

	start(threads, calling, NULL);
	child = fork();
	if (!child) {
		together(1);
		_exit(9);
	}
	waitpid(child, &status, 0);
	join(threads);
	printf("child %d\n", status);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t threads[THREADS];

	calls = argc > 2 ? atoi(argv[2]) : 1;
	if (!strcmp(how, "race"))
		race(threads);
	else if (!strcmp(how, "ends"))
		ends(threads);
	else if (!strcmp(how, "signals"))
		signals(threads);
	else if (!strcmp(how, "forks"))
		forks(threads);
	else if (!strcmp(how, "last")) {
		// the first thread ends before the others have begun to call
		atexit(account);
		start(threads, calling, NULL);
		pthread_exit(NULL);
	} else
		start(threads, endless, NULL);
	if (!strcmp(how, "exits"))
		usleep(20000);
	if (!strcmp(how, "leaves")) {
		usleep(20000);
		syscall(SYS_exit_group, 7); // by none of the library's functions
	}
	if (!strcmp(how, "dies"))
		raise(SIGTERM);
	if (!strcmp(how, "executes"))
		execl("/bin/sh", "sh", "-c", "echo executed; exit 3", (char *)NULL);
	while (!strcmp(how, "stays"))
		pause();
	puts("done");
	fflush(stdout);
	if (strcmp(how, "exits"))
		account();
	return 7;
}
