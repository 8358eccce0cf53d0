// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// Destructors of thread_local objects and of static ones call hooked functions.
#include "leaf.h"
#include "truth.h"

#include <cstdio>
#include <thread>

COUNTED(f0);
COUNTED(f1);

static long destroyed;

struct Local {
	int value = CALL(f0, 0);
	~Local()
	{
		CALL(f0, value);
		destroyed++;
	}
};

struct Global {
	int value = CALL(f1, 0);
	~Global()
	{
		CALL(f1, value);
		REPORT(f0);
		REPORT(f1);
		std::printf("locals %ld\n", destroyed);
	}
};

static Global global;
static thread_local Local local;

int main()
{
	for (int i = 0; i < 30; i++)
		std::thread([] { CHECK(local.value == 1); }).join();
}
