// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// Runs until a line comes in. All threads share a processor and add to its counter by plain loads
// and stores, each in a restartable sequence (rseq(2)) that lasts nearly all the time. No thread
// ever waits. A sequence that is interrupted and goes on all the same writes an old value: then
// the counter is less than the number of sequences that got to their ends.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/rseq.h>

enum { THREADS = 3, SPINS = 3000, TURN = 64 };

static atomic_int over;
static atomic_int waiting = THREADS;
static volatile uint64_t counter;
static uint64_t commits[THREADS], aborts[THREADS];
static int processor;

static int add(struct rseq *area)
{
	int result;

	asm volatile(".pushsection __rseq_cs, \"aw\"\n"
		     ".balign 32\n"
		     "3: .long 0, 0\n"
		     ".quad 1f, 2f - 1f, 4f\n"
		     ".popsection\n"
		     ".pushsection __rseq_failure, \"ax\"\n"
		     ".byte 0x0f, 0xb9, 0x3d\n"
		     ".long 0x53053053\n"
		     "4: movl $0, %[result]\n"
		     "jmp 5f\n"
		     ".popsection\n"
		     "leaq 3b(%%rip), %%rax\n"
		     "movq %%rax, 8(%[area])\n"
		     "1: movq %[counter], %%rcx\n"
		     "movl %[spins], %%eax\n"
		     "6: decl %%eax\n"
		     "jnz 6b\n"
		     "incq %%rcx\n"
		     "movq %%rcx, %[counter]\n"
		     "2: movl $1, %[result]\n"
		     "5:\n"
		     : [result] "=&r"(result), [counter] "+m"(counter)
		     : [area] "r"(area), [spins] "i"(SPINS)
		     : "rax", "rcx", "memory", "cc");
	return result;
}

static void *work(void *argument)
{
	struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
	struct pollfd input = {0, POLLIN, 0};
	int number = (int)(intptr_t)argument;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	sched_setaffinity(0, sizeof(set), &set);
	atomic_fetch_sub(&waiting, 1);
	while (atomic_load(&waiting))
		;
	while (!atomic_load(&over)) {
		for (int i = 0; i < TURN; i++) {
			if (add(area))
				commits[number]++;
			else
				aborts[number]++;
		}
		if (number == 0 && poll(&input, 1, 0) > 0)
			atomic_store(&over, 1);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	uint64_t sum = 0, again = 0;

	if (__rseq_size == 0) {
		puts("no rseq");
		return 9;
	}
	processor = sched_getcpu();
	puts("ready");
	fflush(stdout);
	for (int i = 1; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
	work(NULL);
	for (int i = 1; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++) {
		sum += commits[i];
		again += aborts[i];
	}
	fprintf(stderr, "%llu of %llu, %llu begun again\n", (unsigned long long)counter,
		(unsigned long long)sum, (unsigned long long)again);
	printf("lost %llu\n", (unsigned long long)(sum - counter));
	return sum == counter && again ? 7 : 8;
}
