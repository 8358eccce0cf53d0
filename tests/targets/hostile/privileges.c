/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process and its child, which drops its privileges, as servers have them. The child looks for
 * memory that soscope shares with its parent, and has each word behind the first ones say that
 * something lies in the parent's own data. Prints "BLOCKS SEEN CHANGED": blocks of shared memory that the child can
 * write to, how often it has found the parent's arguments there, and how many words of the
 * parent's data have changed in the end.
 *
 * The argument says how privileges are dropped: by setuid, by a system call (raw), in a handler of
 * a signal (handler), by a filter (seccomp), by namespaces (unshare), in the parent itself when it
 * has a child (parent), or in a child that shares all memory with its parent (vfork). That one
 * does not look. With "stay" the process prints "ready" and has a child as SIGUSR1 comes. The child
 * prints its pid and calls getenv for as long as its parent lives, which waits for a line.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS (1 << 20)
#define NOBODY 65534
#define ARGUMENT "SECRET_OF_ROOT"

static uint64_t data[WORDS] __attribute__((aligned(16384)));

struct seen {
	long blocks, found;
};

static void look(struct seen *seen)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t start, end;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "memfd:soscope") || !strstr(line, " rw-s ") ||
		    sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		seen->blocks++;
		for (uint64_t at = start; at < end && at < start + (4 << 20); at++)
			seen->found += !memcmp((void *)at, ARGUMENT, 8);
		for (int i = 8; seen->blocks == 1 && i < 512; i++)
			((uint64_t *)start)[i] = (uint64_t)data - start;
	}
}

static struct seen *seen;
static pid_t child;
static const char *how = "setuid";

static int is(const char *name)
{
	return !strcmp(how, name);
}

static int drop(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};

	if (is("raw"))
		return syscall(SYS_setgid, NOBODY) || syscall(SYS_setuid, NOBODY);
	if (is("seccomp"))
		return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	if (is("unshare"))
		return unshare(CLONE_NEWNS);
	return setgid(NOBODY) || setuid(NOBODY);
}

static void work(int times)
{
	for (int i = 0; i < times; i++)
		getenv(ARGUMENT);
}

static pid_t start(void)
{
	pid_t pid = is("vfork") ? vfork() : fork();

	if (pid)
		return pid;
	if (is("vfork"))
		_exit(drop());
	if (!is("parent")) {
		work(10);
		if (drop())
			_exit(1);
		look(seen);
		if (is("stay")) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			printf("%d\n", getpid());
			fflush(stdout);
			for (;; usleep(1000))
				work(10);
		}
	}
	_exit(0);
}

static void handle(int signal)
{
	(void)signal;
	child = start();
	if (!is("stay"))
		waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	long changed = 0;

	if (argc > 1)
		how = argv[1];
	seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	work(300);
	if (is("stay")) {
		signal(SIGUSR1, handle);
		puts("ready");
		fflush(stdout);
		while (getchar() != '\n')
			clearerr(stdin);
		if (child > 0 && !kill(child, SIGKILL))
			waitpid(child, NULL, 0);
	} else if (is("handler")) {
		signal(SIGUSR1, handle);
		raise(SIGUSR1);
	} else {
		handle(0);
	}
	if (is("parent")) {
		if (drop())
			return 1;
		look(seen);
	}
	work(3000);
	for (int i = 0; i < WORDS; i++)
		changed += data[i] != 0;
	printf("%ld %ld %ld\n", seen->blocks, seen->found, changed);
	return 7;
}
