// SPDX-License-Identifier: Apache-2.0
// target: alone=no
//
// A child waits for input in read(); its parent makes calls until the child has ended.
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	pid_t child = fork();

	if (child < 0)
		return 1;
	if (!child) {
		char text[16];

		_exit(read(0, text, sizeof(text)) == 3 ? 7 : 8);
	}
	printf("%d\n", child);
	fflush(stdout);
	for (int i = 0; i < 60000; i++) {
		int status;

		getppid();
		if (waitpid(child, &status, WNOHANG) == child)
			return WEXITSTATUS(status);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return 1;
}
