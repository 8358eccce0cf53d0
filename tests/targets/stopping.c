// SPDX-License-Identifier: Apache-2.0
// target: status=3
// Stops a child with SIGSTOP a moment after its fork, at a later moment each time: while it
// is forked, executes a program, or runs that; with a third argument somebody else does.
// Says what wait(2) has told of each.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 10, stopped = 0, continued = 0, ended = 0;
	int step = argc > 2 ? atoi(argv[2]) : 200, status;

	for (int i = 0; i < count; i++) {
		pid_t child = fork();

		if (!child) {
			execl("/bin/true", "true", (char *)0);
			_exit(1);
		}
		usleep((useconds_t)(i * step));
		if (argc < 4)
			kill(child, SIGSTOP);
		if (waitpid(child, &status, WUNTRACED) != child)
			return 4;
		if (WIFSTOPPED(status)) {
			stopped += WSTOPSIG(status) == SIGSTOP;
			// it stands still, however long one looks
			usleep(3000);
			if (waitpid(child, &status, WUNTRACED | WNOHANG) != 0)
				return 5;
			kill(child, SIGCONT);
			if (waitpid(child, &status, WCONTINUED) != child)
				return 6;
			if (WIFCONTINUED(status)) {
				continued++;
				waitpid(child, &status, 0);
			}
		}
		ended += WIFEXITED(status) && !WEXITSTATUS(status);
	}
	// that it was continued may be told too late to be heard: it has ended then
	printf("ended %d, %s\n", ended,
	       continued > stopped || (argc > 3 && stopped < count) ? "wrong" : "right");
	return 3;
}
