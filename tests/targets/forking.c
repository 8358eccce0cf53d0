// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fno-builtin
// Runs until a line comes in: forks children that call abs, and says how often they did. The
// last child stays as long as its parent. A further argument is a file that grows by a byte behind
// each fork.
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

int main(int argc, char **argv)
{
	struct pollfd input = {0, POLLIN, 0};
	int file = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
	long forks = 0, wrong = 0;
	int hold[2], status;

	if (pipe(hold))
		return 1;
	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 5) == 0) {
		pid_t child = fork();

		if (!child) {
			for (int i = 0; i < 10; i++)
				sink = abs(i - 5);
			if (forks == 20) { // stays
				char byte;

				close(hold[1]);
				sink = (int)read(hold[0], &byte, 1);
				sink = abs(sink);
			}
			_exit(3);
		}
		if (forks++ != 20)
			wrong += waitpid(child, &status, 0) != child || status != 3 << 8;
		if (file >= 0)
			wrong += write(file, "f", 1) != 1;
	}
	close(hold[1]);
	wrong += wait(&status) > 0 && status != 3 << 8;
	printf("wrong %ld\n", wrong);
	return wrong ? 2 : 7;
}
