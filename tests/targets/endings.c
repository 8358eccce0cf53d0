// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; runs=return0|return7:7|exit:3|_exit:4|quick:5|group:6|thread|abort:SIGABRT|segv:SIGSEGV|nullcall:SIGSEGV|ill:SIGILL|fpe:SIGFPE|trap:SIGTRAP|kill:SIGKILL|term:SIGTERM|hup:SIGHUP|pipe:SIGPIPE|rt:-37
// endings HOW: the ways in which a process can end, each under a hooked call.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(fcall);

static const char *how;

static int is(const char *name)
{
	return !strncmp(how, name, strlen(name));
}

static void at_exit(void)
{
	CALL(f0, 1);
	truth_calls("f0", 1);
	puts("at exit");
	fflush(stdout);
}

static int end(int x)
{
	CALL(f0, x);
	if (is("return"))
		return x;
	if (is("exit")) {
		REPORT(f0);
		REPORT(fcall);
		exit(3);
	}
	REPORT(f0);
	REPORT(fcall);
	if (is("_exit"))
		_exit(4);
	if (is("quick"))
		quick_exit(5);
	if (is("group"))
		truth_sys(SYS_exit_group, 6, 0, 0);
	if (is("thread"))
		pthread_exit(0);
	if (is("abort"))
		abort();
	if (is("segv"))
		*(volatile int *volatile){(volatile int *)16} = 1;
	if (is("nullcall"))
		((void (*volatile)(void))0)();
	if (is("ill"))
		__asm__ volatile("ud2");
	if (is("fpe"))
		x /= *(volatile int *)&(int){0};
	if (is("trap"))
		__asm__ volatile("int3");
	if (is("kill"))
		raise(SIGKILL);
	if (is("term"))
		kill(getpid(), SIGTERM);
	if (is("hup"))
		pthread_kill(pthread_self(), SIGHUP);
	if (is("rt"))
		raise(SIGRTMIN + 3);
	if (is("pipe")) {
		int ends[2];
		CHECK(pipe(ends) == 0);
		close(ends[0]);
		(void)!write(ends[1], "x", 1);
	}
	CHECK(!"still alive");
	return x;
}

int main(int argc, char **argv)
{
	how = argc > 1 ? argv[1] : "return0";
	puts("begin");
	fflush(stdout);
	atexit(at_exit);
	at_quick_exit(at_exit);
	for (int i = 0; i < 10; i++)
		CALL(f0, i);
	CALL(fcall, end, 1);
	REPORT(f0);
	REPORT(fcall);
	return atoi(how + strlen("return"));
}
