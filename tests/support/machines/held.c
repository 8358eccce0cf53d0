// SPDX-License-Identifier: Apache-2.0
// Calls a library while it makes processes in all ways, in threads until it is told to end, or not
// before that.
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int add(int, int);
void account(void);

static volatile sig_atomic_t ended;
static long calls;

static void end(int number)
{
	(void)number;
	ended = 1;
}

static void *call(void *pause)
{
	long mine = 0;

	for (; !ended; mine++) {
		add(1, 1);
		if (pause)
			usleep(100);
	}
	__atomic_add_fetch(&calls, mine, __ATOMIC_SEQ_CST);
	return NULL;
}

static void threads(void)
{
	pthread_t all[3];

	signal(SIGUSR1, end);
	puts("ready");
	fflush(stdout);
	for (long i = 0; i < 3; i++)
		pthread_create(&all[i], NULL, call, (void *)i);
	for (int i = 0; i < 3; i++)
		pthread_join(all[i], NULL);
	printf("calls %ld\n", calls);
}

static void idle(void)
{
	signal(SIGUSR1, end);
	puts("ready");
	fflush(stdout);
	pause();
	add(1, 1);
}

static void children(void)
{
	char *words[] = {"sh", "-c", "exit 6", NULL};
	char line[16] = "";
	int status = system("exit 5");
	FILE *pipe;
	pid_t child;

	printf("system %d\n", WEXITSTATUS(status));
	add(1, 1);
	pipe = popen("echo said", "r");
	fgets(line, sizeof(line), pipe);
	printf("popen %s", line);
	add(2, 2);
	pclose(pipe);
	posix_spawn(&child, "/bin/sh", NULL, NULL, words, NULL);
	waitpid(child, &status, 0);
	printf("spawn %d\n", WEXITSTATUS(status));
	add(3, 3);
	child = vfork();
	if (!child) {
		execv("/bin/sh", words);
		_exit(1);
	}
	waitpid(child, &status, 0);
	printf("vfork %d\n", WEXITSTATUS(status));
	add(4, 4);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "threads"))
		threads();
	else if (argc > 1 && !strcmp(argv[1], "idle"))
		idle();
	else
		children();
	fflush(stdout);
	account();
	return 4;
}
