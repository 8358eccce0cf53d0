// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; select=_setjmp@MAIN,__sigsetjmp@MAIN,longjmp@MAIN,siglongjmp@MAIN,f0@MAIN
// The setjmp family hooked itself: it returns as often as the program says.
#include "leaf.h"
#include "truth.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

COUNTED(f0);

static jmp_buf plain;
static sigjmp_buf masked;

__attribute__((noinline)) static void deeper(int n)
{
	volatile char room[256];
	room[n & 255] = (char)n;
	if (n < 0)
		return;
	if (n)
		deeper(n - 1);
	else
		longjmp(plain, 1);
	(void)room[0];
}

int main(void)
{
	volatile int back = 0, sets = 0, jumps = 0;
	sets++;
	int r = setjmp(plain);
	CALL(f0, r);
	if (back < 1000) {
		back++;
		jumps++;
		deeper(back % 20);
	}

	sigset_t set;
	volatile int sigback = 0, sigsets = 0, sigjumps = 0;
	sigsets++;
	r = sigsetjmp(masked, 1);
	sigprocmask(SIG_BLOCK, 0, &set);
	CHECK(!sigismember(&set, SIGUSR1));
	CALL(f0, r);
	if (sigback < 500) {
		sigback++;
		sigjumps++;
		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		sigprocmask(SIG_BLOCK, &set, 0);
		siglongjmp(masked, sigback);
	}
	truth_calls("_setjmp", sets);
	truth_calls("__sigsetjmp", sigsets);
	truth_calls("longjmp", jumps);
	truth_calls("siglongjmp", sigjumps);
	REPORT(f0);
	printf("setjmp %d %d %d\n", back, sigback, r);
	return 0;
}
