// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread -lm
// libhooked: a library whose calls of libc somebody hooks. It says what it got.
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

const char *ask(const char *name)
{
	return getenv(name);
}

long ask_pid(void)
{
	return getpid();
}

long pids(long count, long other, long *others) // calls whose result is neither
{
	long own = 0, wrong = 0;

	for (long i = 0; i < count; i++) {
		long got = getpid();

		if (got == other)
			++*others;
		else if (!own)
			own = got;
		else
			wrong += got != own;
	}
	return wrong;
}

long churn(long count) // blocks that were not what they should be
{
	long wrong = 0;

	for (long i = 0; i < count; i++) {
		size_t size = 16 + (size_t)i % 1000;
		char *block = malloc(size);

		if (!block) {
			wrong++;
			continue;
		}
		memset(block, (int)i, size);
		wrong += block[size - 1] != (char)i;
		free(block);
	}
	return wrong;
}

int failure(void) // errno after a call that fails
{
	errno = EDOM;
	return chdir("/nowhere/at/all") == -1 ? errno : -1;
}

int success(void) // errno after a call that does not
{
	errno = EDOM;
	(void)getpid();
	return errno;
}

long find(const char *text, int sign) // where strchr found it
{
	char *at = strchr(text, sign);

	return at ? at - text : -1;
}

long double power(long double x, long double y) // both on the stack
{
	return powl(x, y);
}

int name_of(char *text, unsigned int size) // the seventh argument is on the stack
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80)};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return getnameinfo((struct sockaddr *)&address, sizeof(address), text, size, NULL, 0,
			   NI_NUMERICHOST);
}

// ---- threads that are no thread of Python's --------------------------------

static volatile int stop;
static long calls, hooked, wrong;
static pthread_t threads[128];
static int running;
static long expected;
static struct {
	_Alignas(64) long calls;
	long others;
} seen[128]; // by each thread until now

static void *work(void *place)
{
	long own = 0, mine = 0, others = 0, bad = 0, index = (long)place;

	do {
		long got = getpid();

		mine++;
		if (got == expected)
			others++;
		else if (!own)
			own = got;
		else
			bad += got != own;
		__atomic_store_n(&seen[index].calls, mine, __ATOMIC_RELAXED);
		__atomic_store_n(&seen[index].others, others, __ATOMIC_RELAXED);
	} while (!stop);
	__atomic_fetch_add(&calls, mine, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&hooked, others, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&wrong, bad, __ATOMIC_SEQ_CST);
	return NULL;
}

int begin(int count, long other) // threads that call getpid, which may say @other
{
	stop = 0;
	calls = hooked = wrong = 0;
	expected = other;
	memset(seen, 0, sizeof(seen));
	for (running = 0; running < count; running++)
		if (pthread_create(&threads[running], NULL, work, (void *)(long)running))
			break;
	return running;
}

long made(int other) // calls until now, or those that said @other
{
	long sum = 0;

	for (int i = 0; i < running; i++)
		sum += __atomic_load_n(other ? &seen[i].others : &seen[i].calls, __ATOMIC_RELAXED);
	return sum;
}

void end(long *answers) // calls, those that said @other, wrong ones
{
	stop = 1;
	while (running)
		pthread_join(threads[--running], NULL);
	answers[0] = calls;
	answers[1] = hooked;
	answers[2] = wrong;
}

// ---- children and signals --------------------------------------------------

long child_pid(void) // what getpid says in a child that C has forked
{
	int status = 0;
	pid_t real, child = fork();

	if (!child)
		_exit(getpid() == 4711 ? 11 : 22);
	real = waitpid(child, &status, 0);
	return real == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static volatile long heard;

static void hear(int number)
{
	(void)number;
	heard = getpid();
}

long pid_in_handler(void)
{
	signal(SIGUSR2, hear);
	raise(SIGUSR2);
	return heard;
}

long now(void)
{
	struct timeval time;

	return gettimeofday(&time, NULL) ? -1 : time.tv_sec;
}
