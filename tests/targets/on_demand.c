// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// Reads numbers: makes as many calls of getppid, a negative number in a forked child, and says
// how many it and its children have made so far.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void call(long count)
{
	while (count-- > 0)
		getppid();
}

int main(void)
{
	char line[32];
	long made = 0;

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		long count = atol(line);

		if (count >= 0) {
			call(count);
		} else {
			pid_t child = fork();

			if (!child) {
				call(-count);
				_exit(0);
			}
			waitpid(child, NULL, 0);
		}
		made += labs(count);
		printf("%ld\n", made);
		fflush(stdout);
	}
	return 7;
}
