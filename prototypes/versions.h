// SPDX-License-Identifier: Apache-2.0
// Versions of functions that take something else than the newest one, which the headers declare.
// A program that was linked when they were new still calls them, and one that asks for them.

// Timers were numbers.
int timer_create(clockid_t clock, struct sigevent *event IN, int *timer OUT(success))
	FAILS(< 0) SYMBOL_VERSION(GLIBC_2.2.5);
int timer_settime(int timer, int flags FLAGS(timer), const struct itimerspec *value IN,
		  struct itimerspec *old OUT(success)) FAILS(< 0) SYMBOL_VERSION(GLIBC_2.2.5);
int timer_gettime(int timer, struct itimerspec *value OUT(success))
	FAILS(< 0) SYMBOL_VERSION(GLIBC_2.2.5);
int timer_getoverrun(int timer) FAILS(< 0) SYMBOL_VERSION(GLIBC_2.2.5);
int timer_delete(int timer) FAILS(< 0) SYMBOL_VERSION(GLIBC_2.2.5);

// Sets of processors were all of one size.
int sched_setaffinity(pid_t pid, const cpu_set_t *set) FAILS(< 0) SYMBOL_VERSION(GLIBC_2.3.3);
int sched_getaffinity(pid_t pid, cpu_set_t *set) FAILS(< 0) SYMBOL_VERSION(GLIBC_2.3.3);
int pthread_setaffinity_np(pthread_t thread, const cpu_set_t *set)
	FAILS(!= 0) ERRNO(result) SYMBOL_VERSION(GLIBC_2.3.3);
int pthread_getaffinity_np(pthread_t thread, cpu_set_t *set)
	FAILS(!= 0) ERRNO(result) SYMBOL_VERSION(GLIBC_2.3.3);
int pthread_attr_setaffinity_np(pthread_attr_t *attributes, const cpu_set_t *set)
	FAILS(!= 0) ERRNO(result) SYMBOL_VERSION(GLIBC_2.3.3);
int pthread_attr_getaffinity_np(const pthread_attr_t *attributes, cpu_set_t *set)
	FAILS(!= 0) ERRNO(result) SYMBOL_VERSION(GLIBC_2.3.3);
