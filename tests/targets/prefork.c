// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf,names; plugins=worker; select=f0,fr*; follow=yes; orphans=yes; timeout=120
// A server that forks its workers before it loads anything, and loads the same plug-in
// after them. Workers do so at the same time and each in its own way: first of all,
// twice, in a child of theirs, behind a call, and in an image that another executes.
#include "leaf.h"
#include "plug.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 40 };

COUNTED(f0);

static int use(int times, int close)
{
	void *library = dlopen("libworker.so", RTLD_NOW);
	if (!library)
		fputs(dlerror(), stderr);
	CHECK(library);
	int (*run)(int) = (int (*)(int))dlsym(library, "plug_run");
	int result = run(times);
	calls_of_f0 += times;
	if (close)
		CHECK(dlclose(library) == 0);
	return result;
}

static void expect(pid_t pid)
{
	int status;
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int work(int kind)
{
	switch (kind) {
	case 0:
		return use(3, 0);
	case 1:
		return use(3, 1) + use(2, 0);
	case 2: {
		pid_t pid = fork();
		if (!pid)
			return use(2, 0);
		expect(pid);
		return 0;
	}
	case 3:
		CALL(f0, 1);
		return use(3, 0);
	default:
		use(1, 0);
		REPORT(f0);
		execl("/proc/self/exe", "prefork", "executed", (char *)0);
		return -1;
	}
}

int main(int argc, char **argv)
{
	pid_t workers[WORKERS];
	int go[2];
	char word;

	if (argc > 1 && !strcmp(argv[1], "executed")) {
		truth_role = "exec";
		use(2, 1);
		REPORT(f0);
		return 0;
	}
	CALL(f0, 1);
	CHECK(pipe(go) == 0);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		if (workers[i])
			continue;
		truth_role = "child";
		RESET(f0);
		close(go[1]);
		CHECK(read(go[0], &word, 1) == 0); // all begin together
		if (work(i % 5) < 0)
			_exit(1);
		REPORT(f0);
		_exit(0);
	}
	close(go[0]);
	close(go[1]);
	for (int i = 0; i < WORKERS; i++)
		expect(workers[i]);
	int sum = use(10, 0);
	CALL(f0, 1);
	REPORT(f0);
	printf("prefork %d\n", sum);
	return 0;
}
