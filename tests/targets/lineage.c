// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread; cflags=-fno-builtin -O1
// Makes children in every way there is, which make more of them. Each says how often it has called
// labs() and unit(), and checks how its own children have ended.
//
//     lineage [wait] WAY...    waits for a line first, where that is asked for; then goes each WAY
//     lineage leaf COUNT       calls so often, and ends with COUNT as its status
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 100
#define THREADS 3
#define FORKS 6

static atomic_long calls, wrong;
static atomic_int is_over;
static volatile long sum;
static const char *self;
extern char **environ;

__attribute__((noinline)) long unit(long value)
{
	return labs(value) + 1;
}

static void times(int count)
{
	for (int i = 0; i < count; i++) {
		sum += unit(-i);
		calls++;
	}
}

// A forked child has its parent's counts, and none of its calls.
static void begin(void)
{
	calls = 0;
	wrong = 0;
}

static void say(void)
{
	char line[96];
	int size = snprintf(line, sizeof line, "%d has called %ld wrong %ld\n", getpid(), calls,
			    wrong);
	if (write(1, line, size) != size)
		abort();
}

__attribute__((noreturn)) static void end(int status)
{
	say();
	_exit(status);
}

static void expect(pid_t pid, int status)
{
	int said = -1;
	if (pid <= 0 || waitpid(pid, &said, 0) != pid || said != status)
		wrong++;
}

static void child(int count)
{
	begin();
	times(count);
	end(count);
}

static void many(void)
{
	pid_t pids[MANY];
	for (int i = 0; i < MANY; i++) {
		pids[i] = fork();
		if (!pids[i])
			child(i % 7);
		times(1);
	}
	for (int i = 0; i < MANY; i++)
		expect(pids[i], (i % 7) << 8);
}

static void nested(int depth)
{
	pid_t pid = fork();
	if (!pid) {
		begin();
		times(depth);
		if (depth < 5)
			nested(depth + 1);
		times(1);
		end(wrong ? 99 : depth);
	}
	times(2);
	expect(pid, depth << 8);
}

static void *calling(void *unused)
{
	while (!is_over)
		times(1);
	return unused;
}

static void *forking(void *number)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();
		if (!pid)
			child((int)(long)number + i);
		times(1);
		expect(pid, ((int)(long)number + i) << 8);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t all[THREADS], other;
	is_over = 0;
	pthread_create(&other, NULL, calling, NULL);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&all[i], NULL, forking, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
	is_over = 1;
	pthread_join(other, NULL);
}

static char *leaf[] = {NULL, "leaf", "4", NULL};

static void executing(void)
{
	pid_t pid = fork();
	if (!pid) {
		begin();
		times(2);
		say();
		execv(self, leaf);
		_exit(99);
	}
	expect(pid, 4 << 8);
}

static void sharing(void)
{
	pid_t pid = vfork();
	if (!pid) {
		// its parent's memory: what it counts stands in the parent's words
		calls -= 3;
		times(3);
		char line[96];
		int size = snprintf(line, sizeof line, "%d has called 3 wrong 0\n", getpid());
		if (write(1, line, size) != size)
			_exit(98);
		execv(self, leaf);
		_exit(99);
	}
	expect(pid, 4 << 8);
	times(1);
	if (posix_spawn(&pid, self, NULL, NULL, leaf, environ))
		wrong++;
	else
		expect(pid, 4 << 8);
	if (system("exit 6") != 6 << 8)
		wrong++;
}

static void dying(void)
{
	pid_t pid = fork();
	if (!pid) {
		begin();
		times(5);
		say();
		signal(SIGTERM, SIG_DFL);
		raise(SIGTERM);
	}
	expect(pid, SIGTERM);
	pid = fork();
	if (!pid) {
		begin();
		times(1);
		say();
		kill(getpid(), SIGKILL);
	}
	expect(pid, SIGKILL);
	pid = (pid_t)syscall(SYS_fork);
	if (!pid)
		child(3);
	expect(pid, 3 << 8);
}

// A child whose parent has ended first.
static void orphan(void)
{
	int both[2];
	char byte;
	if (pipe(both))
		abort();
	pid_t pid = fork();
	if (!pid) {
		pid_t parent = getpid();
		if (!fork()) {
			close(both[0]);
			while (getppid() == parent)
				usleep(1000);
			child(6);
		}
		child(1);
	}
	expect(pid, 1 << 8);
	close(both[1]);
	if (read(both[0], &byte, 1) != 0)
		wrong++;
	close(both[0]);
}

static void go(const char *way)
{
	times(1);
	if (!strcmp(way, "many"))
		many();
	else if (!strcmp(way, "nested"))
		nested(1);
	else if (!strcmp(way, "threads"))
		threads();
	else if (!strcmp(way, "executing"))
		executing();
	else if (!strcmp(way, "sharing"))
		sharing();
	else if (!strcmp(way, "dying"))
		dying();
	else if (!strcmp(way, "orphan"))
		orphan();
	else
		wrong++;
}

int main(int argc, char **argv)
{
	char line[16];
	self = leaf[0] = "/proc/self/exe";
	if (argc > 2 && !strcmp(argv[1], "leaf"))
		child(atoi(argv[2]));
	int first = argc > 1 && !strcmp(argv[1], "wait") ? 2 : 1;
	if (first == 2) {
		setbuf(stdout, NULL);
		puts("ready");
		if (!fgets(line, sizeof line, stdin))
			return 1;
	}
	for (int i = first; i < argc; i++)
		go(argv[i]);
	say();
	return wrong ? 1 : 7;
}
