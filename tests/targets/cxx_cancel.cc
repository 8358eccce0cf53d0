// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// Threads that end by pthread_exit and by cancellation under hooked calls: the
// unwinder runs every destructor.
#include "leaf.h"
#include "truth.h"

#include <atomic>
#include <cstdio>
#include <pthread.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(fcall);

static std::atomic<int> destroyed, waiting;

struct Guard {
	~Guard()
	{
		CALL(f0, 0);
		destroyed++;
	}
};

static int exits(int depth)
{
	Guard guard;
	if (depth)
		return CALL(fcall, exits, depth - 1);
	pthread_exit(nullptr);
}

static int waits(int depth)
{
	Guard guard;
	if (depth)
		return CALL(fcall, waits, depth - 1);
	waiting = 1;
	for (;;)
		usleep(1000); // a cancellation point
}

static void *exiting(void *)
{
	return reinterpret_cast<void *>(static_cast<long>(CALL(fcall, exits, 1)));
}

static void *cancelled(void *)
{
	return reinterpret_cast<void *>(static_cast<long>(CALL(fcall, waits, 1)));
}

int main()
{
	pthread_t thread;
	void *result;
	for (int i = 0; i < 50; i++) {
		pthread_create(&thread, nullptr, exiting, nullptr);
		pthread_join(thread, &result);
		CHECK(result == nullptr);
	}
	int after_exit = destroyed;
	for (int i = 0; i < 20; i++) {
		waiting = 0;
		pthread_create(&thread, nullptr, cancelled, nullptr);
		while (!waiting)
			usleep(100);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		CHECK(result == PTHREAD_CANCELED);
	}
	REPORT(f0);
	REPORT(fcall);
	std::printf("cancel %d %d\n", after_exit, destroyed.load());
}
