// SPDX-License-Identifier: Apache-2.0
// Calls functions of a library that counts them, in the ways that its arguments name.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int add(int, int);
long eight(long, long, long, long, long, long, long, long);
double half(int, double, long);
int again(int, int (*)(int));
int callback(int);
const char *text(const char *);
void account(void);

static jmp_buf back;

static int more(int n)
{
	return again(n, more);
}

static int jump(int n)
{
	longjmp(back, n + 1);
}

static void heard(int number)
{
	callback(number);
}

static void *apart(void *given)
{
	callback(add(1, 2));
	return given;
}

static void plain(void)
{
	char line[32];

	for (int i = 0; i < 3; i++)
		add(i, 10);
	eight(1, 2, 3, 4, 5, 6, -7, 1L << 30);
	half(1, 5.0, 2);
	again(3, more);
	text("some text");
	snprintf(line, sizeof(line), "%s %d %.2f %s", "words", -5, 2.5, "end");
	text(line);
}

static void jumps(void)
{
	if (!setjmp(back))
		again(1, jump);
	add(1, 1);
}

static void plugins(void)
{
	for (int i = 0; i < 2; i++) {
		void *handle = dlopen("libplugin.so", RTLD_LAZY);
		int (*run)(int) = (int (*)(int))dlsym(handle, "plugin");

		run(3);
		dlclose(handle);
	}
}

static void forks(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		add(5, 5);
		account(); // which calls functions of libc
		_exit(9);
	}
	waitpid(child, &status, 0);
	printf("child %d\n", status);
	add(6, 6);
}

static void threads(void)
{
	pthread_t thread;

	add(1, 1);
	pthread_create(&thread, NULL, apart, NULL);
	pthread_join(thread, NULL);
	add(2, 2);
}

static void signals(void)
{
	signal(SIGUSR1, heard);
	raise(SIGUSR1);
	add(1, 1);
}

static sigjmp_buf where;
static void *page;

static void faulted(int number)
{
	callback(number);
	siglongjmp(where, 1);
}

static void mended(int number)
{
	callback(number);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

// A fault of its own, while SIGSEGV may not be delivered to anybody else.
static void catches(void)
{
	signal(SIGSEGV, faulted);
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(where, 1))
			*(volatile int *)8 = 1;
	add(7, 7);
}

// One that its handler repairs, so that the same instruction runs once more.
static void returns(void)
{
	signal(SIGSEGV, mended);
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	add(8, 8);
	*(volatile int *)page = 1;
	add(9, 9);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "plain"))
			plain();
		else if (!strcmp(argv[i], "jumps"))
			jumps();
		else if (!strcmp(argv[i], "plugins"))
			plugins();
		else if (!strcmp(argv[i], "forks"))
			forks();
		else if (!strcmp(argv[i], "threads"))
			threads();
		else if (!strcmp(argv[i], "signals"))
			signals();
		else if (!strcmp(argv[i], "dies"))
			raise(SIGSEGV);
		else if (!strcmp(argv[i], "opens"))
			close(open("/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
		else if (!strcmp(argv[i], "killed"))
			raise(SIGKILL);
		else if (!strcmp(argv[i], "execs"))
			execl("/bin/sh", "sh", "-c", "echo executed; eval \"$FIRST\"; exit 3",
			      (char *)NULL);
		else if (!strcmp(argv[i], "catches"))
			catches();
		else if (!strcmp(argv[i], "returns"))
			returns();
		else if (!strcmp(argv[i], "closes"))
			closefrom(3);
		else if (!strcmp(argv[i], "waits"))
			pause();
	}
	puts("done");
	fflush(stdout);
	account();
	return 7;
}
