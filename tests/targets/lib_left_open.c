// SPDX-License-Identifier: Apache-2.0
// libleft_open: calls that never return, as their thread ends inside them, or they are suspended.
#include <pthread.h>
#include <ucontext.h>

#define ALONE __attribute__((noinline))

ALONE void ends_inside(int x)
{
	if (x)
		pthread_exit(NULL);
}

ALONE void ends(int x)
{
	ends_inside(x);
	__asm__ volatile("");
}

ALONE void waits_inside(ucontext_t *mine, ucontext_t *other)
{
	swapcontext(mine, other);
	__asm__ volatile("");
}

ALONE void waits(ucontext_t *mine, ucontext_t *other)
{
	waits_inside(mine, other);
	__asm__ volatile("");
}
