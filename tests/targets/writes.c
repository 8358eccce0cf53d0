// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fno-builtin
// Calls write as often as it is told, in its arguments or line by line, and answers each line
// with how often that was in all. Its own account is of the whole run.
#include "truth.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

COUNTED(write);

static void write_often(int fd, const char *count)
{
	for (int left = atoi(count); left > 0; left--)
		CHECK(CALL(write, fd, "", 1) == 1);
}

int main(int argc, char **argv)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char line[16];

	for (int i = 1; i < argc; i++)
		write_often(fd, argv[i]);
	while (argc < 2 && fgets(line, sizeof(line), stdin)) {
		write_often(fd, line);
		printf("%ld\n", calls_of_write);
		fflush(stdout);
	}
	REPORT(write);
	return 0;
}
