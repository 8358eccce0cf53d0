// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=plug_a; ldflags=-pthread; follow=yes; runs=fork|vfork|exec|dlopen|probe
// Children that do what a parent that is traced must not feel, whether they are followed or
// not. The parent calls before, between and after, in a new thread, too.
//
//	fork     just calls
//	vfork    calls on its parent's memory, then _exit
//	exec     the same, then it executes this program again, which calls nothing
//	dlopen   loads a library
//	probe    asks whether there are seccomp filters, which is refused (EFAULT)
//	strict   forbids itself all system calls but those that end it
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 4, CALLS = 5 };

static volatile long by_parent, by_child, texts;

// Not inline: what clang loads for calls in a function that ends in _exit is a lower bound.
__attribute__((noinline)) static void call_often(volatile long *count)
{
	for (int i = 0; i < CALLS; i++) {
		f1(i);
		(*count)++;
	}
}

static void *in_thread(void *argument)
{
	call_often(&by_parent);
	return argument;
}

static void parent(void)
{
	pthread_t thread;

	call_often(&by_parent);
	CHECK(pthread_create(&thread, 0, in_thread, 0) == 0);
	CHECK(pthread_join(thread, 0) == 0);
	CHECK(access("/a text", 0) == -1);
	texts++;
}

static void tell_child(void)
{
	truth_role = "child";
	truth_calls("f1", by_child);
}

static void forked(const char *what, const char *self)
{
	by_child = 0;
	call_often(&by_child);
	if (!strcmp(what, "dlopen")) {
		char path[4096];

		strcpy(path, self);
		strcpy(strrchr(path, '/') + 1, "libplug_a.so");
		CHECK(dlopen(path, RTLD_NOW));
	} else if (!strcmp(what, "probe")) {
		CHECK(prctl(PR_SET_SECCOMP, 2, 0) == -1 && errno == EFAULT);
	} else if (!strcmp(what, "strict")) {
		tell_child(); // what it calls with fewer rights is not seen
		by_child = 0;
		if (prctl(PR_SET_SECCOMP, 1, 0) == 0) {
			call_often(&by_child);
			truth_sys(60, 0, 0, 0);
		}
	}
	call_often(&by_child);
	tell_child();
	_exit(0);
}

static void vforked(const char *what, char *self)
{
	volatile bool exec = !strcmp(what, "exec");
	pid_t pid = vfork();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		call_often(&by_child);
		if (exec)
			execl(self, self, "nothing", (char *)0);
		_exit(exec);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char **argv)
{
	const char *what = argv[argc - 1];
	bool borrows = !strcmp(what, "vfork") || !strcmp(what, "exec");

	if (!strcmp(what, "nothing"))
		return 0;
	for (int round = 0; round < ROUNDS; round++) {
		int status;
		pid_t pid;

		parent();
		if (borrows) {
			vforked(what, argv[0]);
			continue;
		}
		pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			forked(what, argv[0]);
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	parent();
	truth_calls("f1", by_parent);
	truth_calls("access", texts);
	if (borrows) {
		truth_role = "vfork";
		truth_calls("f1", by_child);
	}
	puts(what);
	return 0;
}
