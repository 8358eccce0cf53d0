// SPDX-License-Identifier: Apache-2.0
// Twenty calls that may fail, and what becomes of the program then: each stands in a function
// whose name begins with the kind that a sweep is to find.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLANT __attribute__((noinline, noclone)) static void

static volatile int sum;

__attribute__((noinline, noclone)) static void store(int *where)
{
	*where = 1;
}

PLANT crash_store(void)
{
	int *p = malloc(40);

	store(p);
	free(p);
}

PLANT crash_copy(void)
{
	char *volatile p = malloc(4096);

	strcpy(p, "a library function follows the pointer");
	sum += p[0];
	free(p);
}

PLANT crash_abort(void)
{
	void *p = calloc(3, 5);

	if (!p)
		abort();
	free(p);
}

PLANT crash_call(void)
{
	void (*volatile nowhere)(void) = NULL;
	void *p = malloc(41);

	if (!p)
		nowhere();
	free(p);
}

PLANT hang_spin(void)
{
	void *p = malloc(42);

	while (!p)
		sum++;
	free(p);
}

PLANT hang_deaf(void)
{
	void *p = calloc(1, 43);

	if (!p) {
		signal(SIGTERM, SIG_IGN);
		if (fork()) // in nobody's session
			wait(NULL);
		setsid();
	}
	while (!p)
		pause();
	free(p);
}

PLANT hang_lock(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	void *p = malloc(44);

	pthread_mutex_lock(&lock);
	if (!p)
		pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	free(p);
}

PLANT hang_child(void)
{
	void *p = malloc(45);

	if (!p) {
		pid_t child = fork();

		if (!child) {
			setpgid(0, 0);
			pause();
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	free(p);
}

PLANT wrong_less(void)
{
	char *p = malloc(46);

	if (!p)
		return;
	puts("a line");
	free(p);
}

PLANT wrong_more(void)
{
	void *p = malloc(47);

	if (!p)
		puts("one line too many");
	free(p);
}

PLANT wrong_byte(void)
{
	void *p = calloc(2, 24);

	puts(p ? "byte a" : "byte b");
	free(p);
}

PLANT wrong_sum(void)
{
	int *p = realloc(NULL, 4 * sizeof(*p));

	if (p)
		p[3] = 7;
	printf("sum %d\n", p ? p[3] : 0);
	free(p);
}

PLANT error_exit(void)
{
	void *p = malloc(48);

	if (!p)
		exit(1);
	free(p);
}

PLANT error_message(void)
{
	void *p = malloc(49);

	if (!p) {
		perror("planted");
		exit(2);
	}
	free(p);
}

PLANT error_now(void)
{
	void *p = realloc(NULL, 50);

	if (!p)
		_exit(125); // soscope's own number
	free(p);
}

PLANT error_child(void)
{
	void *p = malloc(51);

	if (!p) {
		if (!fork()) { // stays behind
			setsid();
			sleep(1000);
			_exit(0);
		}
		exit(3);
	}
	free(p);
}

PLANT none_ignored(void)
{
	free(malloc(52));
}

PLANT none_again(void)
{
	void *p = malloc(53);

	if (!p)
		p = calloc(1, 53); // never reached without injection: no site
	free(p);
}

PLANT none_without(void)
{
	char room[54];
	char *p = malloc(sizeof(room));

	strcpy(p ? p : room, "the same");
	puts(p ? p : room);
	free(p);
}

PLANT none_told(void)
{
	void *p = calloc(1, 55);

	if (!p)
		fputs("planted: less memory\n", stderr);
	free(p);
}

int main(void)
{
	static char room[1 << 16];

	setvbuf(stdout, room, _IOFBF, sizeof(room));
	crash_store();
	crash_copy();
	crash_abort();
	crash_call();
	hang_spin();
	hang_deaf();
	hang_lock();
	hang_child();
	wrong_less();
	wrong_more();
	wrong_byte();
	wrong_sum();
	error_exit();
	error_message();
	error_now();
	error_child();
	none_ignored();
	none_again();
	none_without();
	none_told();
	return 0;
}
