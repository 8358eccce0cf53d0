// SPDX-License-Identifier: Apache-2.0
// A library to preload: a profiler's handler. When it has interrupted a function of the agent's, it
// says so to whoever holds the other end of a socket, and does not return until it gets an answer.
// INTERRUPTED is "SOCKET LOW HIGH": the descriptor, and where the function lies in the agent.

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static int teller;
static unsigned long low, high, base;
static int has_held;
static char text[1 << 20];

static unsigned long find_agent(void)
{
	int maps = open("/proc/self/maps", O_RDONLY);
	long size = 0, got;

	while ((got = read(maps, text + size, sizeof(text) - 1 - (unsigned long)size)) > 0)
		size += got;
	close(maps);
	text[size] = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		if (strstr(line, " r-xp 00000000 ") && strstr(line, "memfd:soscope"))
			return strtoul(line, NULL, 16);
	}
	return 0;
}

static void handler(int signal, siginfo_t *info, void *context)
{
	unsigned long at = (unsigned long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	char byte = 'h';

	(void)signal;
	(void)info;
	if (has_held)
		return;
	if (!base)
		base = find_agent();
	if (!base || at < base + low || at >= base + high)
		return;
	has_held = 1;
	if (write(teller, &byte, 1) != 1)
		_exit(100);
	while (read(teller, &byte, 1) != 1)
		;
}

__attribute__((constructor)) static void begin(void)
{
	const char *words = getenv("INTERRUPTED");
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval often = {{0, 1000}, {0, 1000}};

	if (!words || sscanf(words, "%d %lx %lx", &teller, &low, &high) != 3)
		return;
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
}
