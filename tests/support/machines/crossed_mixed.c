// SPDX-License-Identifier: Apache-2.0
// Stops in its emulator's stub when some functions are bound and some are not, then calls them all.
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int add(int, int);
long eight(long, long, long, long, long, long, long, long);
double half(int, double, long);
int again(int, int (*)(int));
int callback(int);
const char *text(const char *);
void account(void);

enum { THREADS = 4 };

static pthread_barrier_t barrier;
static volatile sig_atomic_t ended;

static int more(int n)
{
	return again(n, more);
}

static void heard(int number)
{
	callback(number);
}

static void end(int number)
{
	(void)number;
	ended = 1;
}

// All make the same first calls at once.
static void *apart(void *given)
{
	pthread_barrier_wait(&barrier);
	callback(1);
	text("text");
	return given;
}

static void bind_some(void)
{
	pthread_t all[THREADS];

	for (int i = 0; i < 3; i++)
		add(i, 1);
	half(1, 5.0, 2);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&all[i], NULL, apart, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
}

static void *waiting(void *given)
{
	while (!ended)
		pause();
	return given;
}

static void rest(void)
{
	for (int i = 0; i < 5; i++)
		add(i, 1);
	text("text");
	signal(SIGUSR2, heard);
	raise(SIGUSR2);
	again(3, more); // unbound: calls again before its first call has returned
	eight(1, 2, 3, 4, 5, 6, 7, 8);
	eight(1, 2, 3, 4, 5, 6, 7, 8);
	half(1, 5.0, 2);
}

// What the loader and nobody else has left in the slots.
static void tell_slots(void)
{
	const ElfW(Dyn) *each = _DYNAMIC;
	const ElfW(Rela) *slots = NULL;
	unsigned long size = 0;

	for (; each->d_tag != DT_NULL; each++) {
		if (each->d_tag == DT_JMPREL)
			slots = (const ElfW(Rela) *)each->d_un.d_ptr;
		else if (each->d_tag == DT_PLTRELSZ)
			size = each->d_un.d_val;
	}
	for (unsigned long i = 0; i < size / sizeof(*slots); i++)
		printf("slot %lx\n", *(const unsigned long *)slots[i].r_offset);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t thread;

	signal(SIGUSR1, end);
	bind_some();
	if (!strcmp(how, "held"))
		pthread_create(&thread, NULL, waiting, NULL);
	account();
	fputs("from here on\n", stderr);
	raise(SIGTRAP); // where the stub has no client, it ends here
	if (!strcmp(how, "loops")) {
		do { // at least once, so that the same slots are bound however late it gets here
			add(1, 1);
			usleep(20000);
		} while (!ended);
	} else if (!strcmp(how, "later")) {
		add(1, 1);
		add(2, 2);
		bind_some();
	} else if (!strcmp(how, "idle")) {
		puts("idle");
		fflush(stdout);
		do // the signal may have come already: then it would pause for ever
			usleep(20000);
		while (!ended);
	}
	rest();
	account();
	tell_slots();
	return 5;
}
