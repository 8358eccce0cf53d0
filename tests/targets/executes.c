// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread; orphans=yes
// executes WAY N: has children execute a program N times in this way, and says how many of them did
// so: a program that is executed writes a byte into the pipe of which it is told. The rest fail.
#define _GNU_SOURCE
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char self[4096], number[12];
static char *words[] = {"executes", "executed", number, 0};
static char *nowhere = "/nonexistent/program", *bad = (char *)8;

static int wait_for(pid_t pid)
{
	int status = -1;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static void fails(void)
{
	execve(nowhere, words, environ);
	execv("/dev/null", words);
	syscall(SYS_execve, nowhere, words, environ);
	syscall(SYS_execve, bad, words, environ);
}

static void by_fork(void)
{
	pid_t pid = fork();

	if (!pid) {
		fails();
		execv(self, words);
		_exit(1);
	}
	wait_for(pid);
}

static void by_search(void)
{
	pid_t pid = fork();

	if (!pid) {
		execlp("no-such-program-at-all", "no", (char *)0);
		execlp("sh", "sh", "-c", "exec \"$0\" executed $1", self, number, (char *)0);
		_exit(1);
	}
	wait_for(pid);
}

static void by_vfork(void)
{
	pid_t pid = vfork();

	if (!pid) {
		execve(nowhere, words, environ);
		execve(self, words, environ);
		_exit(1);
	}
	wait_for(pid);
}

static int on_new_stack(void *argument)
{
	(void)argument;
	execve(nowhere, words, environ);
	execve(self, words, environ);
	return 1;
}

static void by_clone(void)
{
	enum { SIZE = 1 << 16 };
	char *stack = malloc(SIZE);

	CHECK(stack);
	wait_for(clone(on_new_stack, stack + SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, 0));
	free(stack);
}

static void by_number(void)
{
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (!pid) {
		syscall(SYS_execve, nowhere, words, environ);
		syscall(SYS_execve, self, words, environ);
		_exit(1);
	}
	wait_for(pid);
}

static void by_descriptor(void)
{
	pid_t pid = fork();

	if (!pid) {
		fexecve(-1, words, environ);
		fexecve(open(self, O_RDONLY | O_CLOEXEC), words, environ);
		_exit(1);
	}
	wait_for(pid);
}

static void by_spawn(void)
{
	pid_t pid;

	CHECK(posix_spawn(&pid, nowhere, 0, 0, words, environ) == ENOENT);
	CHECK(posix_spawnp(&pid, self, 0, 0, words, environ) == 0);
	wait_for(pid);
}

static void by_shell(void)
{
	char command[5000];

	snprintf(command, sizeof(command), "exec '%s' executed %s", self, number);
	CHECK(system(0));
	CHECK(system(command) == 0);
}

static void by_pipe(void)
{
	char command[5000];
	FILE *pipe;

	snprintf(command, sizeof(command), "exec '%s' executed %s", self, number);
	pipe = popen(command, "r");
	CHECK(pipe);
	pclose(pipe);
}

// A daemon: the child of a child, in a session of its own, with other rights if it may have them.
static void by_daemon(void)
{
	pid_t pid = fork();

	if (!pid) {
		setsid();
		pid = fork();
		if (!pid) {
			if (!getuid())
				CHECK(setgid(65534) == 0 && setuid(65534) == 0);
			fails();
			execv("/proc/self/exe", words);
			_exit(1);
		}
		wait_for(pid);
		_exit(0);
	}
	wait_for(pid);
}

static void by_nobody(void)
{
	pid_t pid = fork();

	if (!pid) {
		fails();
		_exit(0);
	}
	wait_for(pid);
}

static void *in_thread(void *argument)
{
	(void)argument;
	by_spawn();
	by_fork();
	return 0;
}

static void by_threads(void)
{
	enum { THREADS = 20 };
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], 0, in_thread, 0) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], 0) == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{"fork", by_fork},     {"search", by_search}, {"vfork", by_vfork},
	{"clone", by_clone},   {"number", by_number}, {"descriptor", by_descriptor},
	{"spawn", by_spawn},   {"shell", by_shell},   {"pipe", by_pipe},
	{"daemon", by_daemon}, {"nobody", by_nobody}, {"threads", by_threads},
};

static long executed(int from)
{
	char bytes[4096];
	long sum = 0, some;

	while ((some = read(from, bytes, sizeof(bytes))) > 0)
		sum += some;
	return sum;
}

int main(int argc, char **argv)
{
	int ends[2];

	if (argc > 2 && !strcmp(argv[1], "executed"))
		return write(atoi(argv[2]), "", 1) != 1;
	CHECK(argc > 2 && pipe(ends) == 0);
	CHECK(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	snprintf(number, sizeof(number), "%d", ends[1]);
	for (int i = 0; i < atoi(argv[2]); i++)
		for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++)
			if (!strcmp(argv[1], ways[way].name) || !strcmp(argv[1], "all"))
				ways[way].run();
	close(ends[1]);
	printf("executed %ld\n", executed(ends[0]));
	return 3;
}
