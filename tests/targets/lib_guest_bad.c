// SPDX-License-Identifier: Apache-2.0
/* A library whose constructor does what the environment variable GUEST_BAD says. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("GUEST_BAD");
	char *words[] = {"cat", NULL};
	volatile int forever = 1;

	if (!what || !strcmp(what, "nothing"))
		return;
	if (!strcmp(what, "fault"))
		*(volatile int *)8 = 1;
	if (!strcmp(what, "trap"))
		raise(SIGTRAP);
	if (!strcmp(what, "exit"))
		_exit(9);
	if (!strcmp(what, "exec"))
		execve("/bin/cat", words, environ);
	if (!strcmp(what, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(what, "stop"))
		kill(getpid(), SIGSTOP);
	if (!strcmp(what, "sleep"))
		sleep(1000);
	while (forever && !strcmp(what, "loop"))
		;
}
