// SPDX-License-Identifier: Apache-2.0
// What a program sees of how it was started, and ways to end. For tests of the launch.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void print_auxv(void)
{
	unsigned long pair[2];
	int fd = open("/proc/self/auxv", O_RDONLY);

	while (read(fd, pair, sizeof pair) == sizeof pair) {
		switch (pair[0]) {
		case AT_PHDR:
		case AT_BASE:
		case AT_ENTRY:
		case AT_RANDOM:
		case AT_SYSINFO_EHDR:
			printf("auxv %lu\n", pair[0]); // chance decides
			break;
		case AT_EXECFN:
		case AT_PLATFORM:
			printf("auxv %lu %s\n", pair[0], (char *)pair[1]);
			break;
		default:
			printf("auxv %lu %lu\n", pair[0], pair[1]);
		}
	}
	close(fd);
}

static void print_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	while ((entry = readdir(dir))) {
		char target[256] = "";
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

		if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(dir) || n < 0)
			continue;
		target[strcspn(target, "[")] = 0; // numbers of pipes differ
		printf("fd %s %s\n", entry->d_name, target);
	}
	closedir(dir);
	printf("next fd %d\n", dup(0));
}

static void print_status(void)
{
	static const char *const wanted[] = {"Sig",	  "Shd",   "Umask",    "Threads",
					     "TracerPid", "NoNew", "Seccomp:", "Cap"};
	char line[512];
	FILE *file = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof line, file))
		for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
			if (!strncmp(line, wanted[i], strlen(wanted[i])) &&
			    strncmp(line, "SigQ", 4))
				fputs(line, stdout);
	fclose(file);
}

static void print_state(int argc, char **argv)
{
	struct rlimit limit;
	char path[4096];

	printf("errno %d\n", errno);
	print_status();
	for (int i = 0; i < argc; i++)
		printf("argv %s\n", argv[i]);
	for (char **entry = environ; *entry; entry++)
		printf("env %s\n", *entry);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		if (!getrlimit(i, &limit))
			printf("limit %d %lx %lx\n", i, limit.rlim_cur, limit.rlim_max);
	printf("cwd %s\n", getcwd(path, sizeof path));
	printf("ids %d %d %d %d\n", getuid(), geteuid(), getgid(), getegid());
	print_auxv();
	print_descriptors();
}

static void *exec_from_thread(void *argv)
{
	execv("/proc/self/exe", argv);
	_exit(99);
}

static void *nothing(void *unused)
{
	return unused;
}

// Children of every kind; each ends with a status that is summed up.
static int family(char *self)
{
	int sum = 0, status;
	pthread_t thread;

	for (int i = 0; i < 5; i++) {
		char *argv[] = {self, "exit", "2", NULL};
		pid_t pid = i % 2 ? vfork() : fork();

		if (!pid) {
			execv("/proc/self/exe", argv);
			_exit(99);
		}
		waitpid(pid, &status, 0);
		sum += WEXITSTATUS(status);
	}
	if (!fork()) {
		char *argv[] = {self, "exit", "3", NULL};

		pthread_create(&thread, NULL, exec_from_thread, argv);
		pthread_join(thread, NULL);
		_exit(98);
	}
	wait(&status);
	sum += WEXITSTATUS(status);
	for (int i = 0; i < 20; i++) {
		pthread_create(&thread, NULL, nothing, NULL);
		pthread_join(thread, NULL);
	}
	if (!fork())
		_exit(4);
	wait(&status);
	return sum + WEXITSTATUS(status); // 10 + 3 + 4
}

static volatile sig_atomic_t seen;

static void on_signal(int number)
{
	(void)number;
	seen++;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "state";
	int number = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(what, "state")) {
		print_state(argc, argv);
	} else if (!strcmp(what, "exit")) {
		return number;
	} else if (!strcmp(what, "die")) { // by a signal, its default action
		signal(number, SIG_DFL);
		raise(number);
	} else if (!strcmp(what, "segv")) {
		*(volatile int *)8 = 1;
	} else if (!strcmp(what, "pause")) { // until a signal that was on its way before exec
		pause();
	} else if (!strcmp(what, "signals")) { // to itself, handled
		signal(SIGUSR1, on_signal);
		for (int i = 0; i < number; i++)
			kill(getpid(), SIGUSR1);
		return seen == number ? 0 : 1;
	} else if (!strcmp(what,
			   "wait")) { // says "ready", lives until a signal, at most for a while
		signal(SIGUSR1, on_signal);
		signal(SIGTERM, on_signal);
		puts("ready");
		fflush(stdout);
		for (int i = 0; i < number && !seen; i++)
			usleep(10000);
		printf("done %d\n", (int)seen);
		return 5;
	} else if (!strcmp(what, "family")) {
		return family(argv[0]);
	} else if (!strcmp(what, "exec")) {
		execv(argv[2], argv + 2);
		return 99;
	} else if (!strcmp(what, "maps")) {
		char line[512];
		FILE *file = fopen("/proc/self/maps", "r");

		while (fgets(line, sizeof line, file))
			fputs(line, stdout);
	}
	return 0;
}
