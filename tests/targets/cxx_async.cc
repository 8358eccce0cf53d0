// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// Asynchronous cancellation that lands anywhere in a hot loop of hooked calls:
// any instruction of a trampoline may be where the unwinder starts.
#include "leaf.h"
#include "truth.h"

#include <atomic>
#include <cstdio>
#include <pthread.h>
#include <unistd.h>

static std::atomic<int> destroyed, started;
static volatile long begun, done;

struct Guard {
	~Guard()
	{
		destroyed++;
	}
};

// No destructor here: C++ lets an exception start at calls alone.
__attribute__((noinline)) static void hot()
{
	int x = 0;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
	started = 1;
	for (;;) {
		begun = begun + 1;
		x = f0(x);
		done = done + 1;
	}
}

static void *loop(void *)
{
	Guard guard;
	hot();
	return nullptr;
}

int main()
{
	for (int i = 0; i < 60; i++) {
		pthread_t thread;
		void *result;
		started = 0;
		pthread_create(&thread, nullptr, loop, nullptr);
		while (!started)
			usleep(20);
		usleep(static_cast<useconds_t>(i * 7 % 200));
		pthread_cancel(thread);
		pthread_join(thread, &result);
		CHECK(result == PTHREAD_CANCELED);
	}
	truth_range("f0", done, begun);
	std::printf("async %d\n", destroyed.load());
}
