// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; follow=yes
// posix_spawn, system and popen of this program itself.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(f0);

int main(int argc, char **argv)
{
	for (int i = 0; i < 25; i++)
		CALL(f0, i);
	if (argc > 1) {
		truth_role = "exec";
		REPORT(f0);
		printf("spawned %s\n", argv[1]);
		return 6;
	}
	char self[4096], command[4200];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	CHECK(length > 0);
	self[length] = 0;

	for (int i = 0; i < 5; i++) {
		char *arguments[] = {self, "by-spawn", 0};
		pid_t pid;
		int status;
		CHECK(posix_spawn(&pid, self, 0, 0, arguments, environ) == 0);
		CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6);
		CALL(f0, i);
	}
	snprintf(command, sizeof command, "'%s' by-system", self);
	CHECK(WEXITSTATUS(system(command)) == 6);
	snprintf(command, sizeof command, "'%s' by-popen", self);
	FILE *pipe = popen(command, "r");
	char line[64];
	CHECK(pipe && fgets(line, sizeof line, pipe) && !strcmp(line, "spawned by-popen\n"));
	CHECK(WEXITSTATUS(pclose(pipe)) == 6);
	REPORT(f0);
	puts("spawn done");
	return 0;
}
