// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// Five threads that throw through hooked calls at the same time.
#include "leaf.h"
#include "truth.h"

#include <cstdio>
#include <thread>
#include <vector>

COUNTED(f0);
COUNTED(fcall);

static int throws(int x)
{
	throw CALL(f0, x);
}

int main()
{
	long sums[5] = {};
	std::vector<std::thread> threads;
	for (int t = 0; t < 5; t++)
		threads.emplace_back([t, &sums] {
			for (int i = 0; i < 600; i++)
				try {
					CALL(fcall, throws, i);
				} catch (int x) {
					sums[t] += x;
				}
		});
	for (auto &thread : threads)
		thread.join();
	REPORT(f0);
	REPORT(fcall);
	std::printf("threads %ld %ld\n", sums[0], sums[4]);
}
