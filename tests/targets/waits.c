// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// waits CALL SECONDS: waits in one system call for so long, or until a helper acts that waits for
// so long. Says what it returned, errno, and when it began and ended, in ns of CLOCK_MONOTONIC: a
// stop in between must not be seen.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int seconds;
static int pair[2], pipes[2];

static void sleep_on(void)
{
	struct timespec time = {seconds, 0};

	nanosleep(&time, NULL);
}

static void *later(void *what)
{
	sleep_on();
	// to the first thread alone: the kernel gives this one what the other, if stopped, does not take
	if (strcmp(what, "kill") == 0)
		syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
	else if (write(pipes[1], "x", 1) + write(pair[1], "y", 1) != 2)
		abort();
	return NULL;
}

static void nothing(int number)
{
	(void)number;
}

static long wait_in(const char *name)
{
	struct timespec time = {seconds, 0}, left = time;
	struct timeval limit = {seconds, 0};
	struct pollfd none = {-1, 0, 0};
	struct epoll_event event;
	char byte;
	sigset_t set;
	pthread_t thread;
	int epoll = epoll_create1(0), ms = seconds * 1000, word = 0, is_signal, status;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	if (!strcmp(name, "nanosleep"))
		return nanosleep(&time, &left);
	if (!strcmp(name, "clock_nanosleep"))
		return clock_nanosleep(CLOCK_REALTIME, 0, &time, &left);
	if (!strcmp(name, "sleep"))
		return sleep((unsigned)seconds);
	if (!strcmp(name, "poll"))
		return poll(&none, 1, ms);
	if (!strcmp(name, "ppoll"))
		return ppoll(&none, 1, &time, &set);
	if (!strcmp(name, "select"))
		return select(0, NULL, NULL, NULL, &limit);
	if (!strcmp(name, "pselect"))
		return pselect(0, NULL, NULL, NULL, &time, &set);
	if (!strcmp(name, "epoll_wait"))
		return epoll_wait(epoll, &event, 1, ms);
	if (!strcmp(name, "epoll_pwait"))
		return epoll_pwait(epoll, &event, 1, ms, &set);
	if (!strcmp(name, "epoll_pwait2"))
		return syscall(SYS_epoll_pwait2, epoll, &event, 1, &time, NULL, 0);
	if (!strcmp(name, "futex"))
		return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0);
	if (!strcmp(name, "sem_timedwait")) {
		sem_t sem;

		sem_init(&sem, 0, 0);
		clock_gettime(CLOCK_REALTIME, &left);
		left.tv_sec += seconds;
		return sem_timedwait(&sem, &left);
	}
	if (!strcmp(name, "sigtimedwait")) {
		sigprocmask(SIG_BLOCK, &set, NULL);
		return sigtimedwait(&set, NULL, &time);
	}
	if (!strcmp(name, "semtimedop")) {
		int id = semget(IPC_PRIVATE, 1, 0600);
		struct sembuf take = {0, -1, 0};
		long result = semtimedop(id, &take, 1, &time);
		int error = errno;

		semctl(id, 0, IPC_RMID);
		errno = error;
		return result;
	}
	if (!strcmp(name, "msgrcv")) {
		int id = msgget(IPC_PRIVATE, 0600);
		struct {
			long type;
			char text[1];
		} message = {1, "m"};
		long result;

		if (!fork()) {
			sleep_on();
			_exit(msgsnd(id, &message, 1, 0));
		}
		result = msgrcv(id, &message, 1, 0, 0);
		msgctl(id, IPC_RMID, NULL);
		return result;
	}
	if (!strcmp(name, "wait4")) {
		if (!fork()) {
			sleep_on();
			_exit(3);
		}
		return wait4(-1, &status, 0, NULL) > 0 ? status : -1;
	}
	if (!strcmp(name, "flock")) {
		char path[] = "/tmp/sosc-waits-XXXXXX";
		int one = mkstemp(path), other = open(path, O_RDONLY);

		unlink(path);
		flock(one, LOCK_EX);
		if (!fork()) {
			close(other);
			sleep_on();
			flock(one, LOCK_UN);
			_exit(0);
		}
		return flock(other, LOCK_EX);
	}
	is_signal = !strcmp(name, "pause") || !strcmp(name, "epoll_signal");
	pthread_create(&thread, NULL, later, is_signal ? "kill" : "write");
	if (!strcmp(name, "pause"))
		return pause(); // EINTR, from the signal
	if (!strcmp(name, "read"))
		return read(pipes[0], &byte, 1);
	if (!strcmp(name, "recv"))
		return recv(pair[0], &byte, 1, 0);
	if (!strcmp(name, "join"))
		return pthread_join(thread, NULL);
	if (!strcmp(name, "epoll_signal")) // a handler that does run ends the wait
		return epoll_pwait(epoll, &event, 1, 10 * ms, &set);
	return -2;
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = nothing};
	long long began, ended;
	long result;
	int number;

	if (argc < 3 || pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	seconds = atoi(argv[2]);
	sigaction(SIGUSR1, &action, NULL);
	puts("ready");
	fflush(stdout);
	began = now();
	errno = 0;
	result = wait_in(argv[1]);
	number = errno;
	ended = now();
	printf("%ld %d %lld %lld\n", result, result < 0 ? number : 0, began, ended);
	return 0;
}
