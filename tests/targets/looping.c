// SPDX-License-Identifier: Apache-2.0
// target: cflags=-O2 -fomit-frame-pointer -fno-builtin; ldflags=-pthread -ldl; plugins=inside
/*
 * A loop of calls, and a thread that does what lines on the input say:
 *
 *     looping [THREADS]
 *
 * So many more threads make the same calls without a pause. The lines are
 *
 *     park    waits in poll() until "leave" comes
 *     open    opens libinside.so itself
 *     end     ends the program, which says whether all calls gave what libc's give, or ours
 */

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 100 };

static volatile int over;
static int pipes[2];

static void *park(void *unused)
{
	struct pollfd end = {pipes[0], POLLIN, 0};

	(void)unused;
	puts("parks");
	fflush(stdout);
	poll(&end, 1, -1);
	puts("left");
	fflush(stdout);
	return NULL;
}

static void *listen(void *unused)
{
	char line[64];
	pthread_t thread;

	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n")) {
		if (!strcmp(line, "park\n"))
			pthread_create(&thread, NULL, park, NULL);
		else if (!strcmp(line, "leave\n") && write(pipes[1], line, 1) == 1)
			pthread_join(thread, NULL);
		else if (!strcmp(line, "open\n"))
			puts(dlopen("libinside.so", RTLD_NOW) ? "opened" : dlerror());
		fflush(stdout);
	}
	over = 1;
	return unused;
}

static void *loop(void *pause)
{
	FILE *nowhere = fopen("/dev/null", "w");
	long wrong = 0;

	while (nowhere && !over) {
		const char *value = getenv("INSIDE");

		wrong += strcmp(value, "theirs") && strcmp(value, "mine");
		wrong += strlen(value) != (*value == 't' ? 6 : 4);
		fprintf(nowhere, "%s\n", value);
		usleep(pause ? 500 : 0);
	}
	return (void *)wrong;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0, index;
	pthread_t thread, threads[MOST];
	long wrong, more;

	if (count > MOST || pipe(pipes))
		return 2;
	setenv("INSIDE", "theirs", 1);
	puts("ready");
	fflush(stdout);
	pthread_create(&thread, NULL, listen, NULL);
	for (index = 0; index < count; index++)
		pthread_create(&threads[index], NULL, loop, NULL);
	wrong = (long)loop(&over);
	for (index = 0; index < count; index++) {
		pthread_join(threads[index], (void **)&more);
		wrong += more;
	}
	pthread_join(thread, NULL);
	printf("wrong %ld\n", wrong);
	return 7;
}
