// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// Runs until a line comes in. Threads are nearly always between the two phases of an exception:
// a destructor that takes its time runs below a call that the handler's frame has made.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<bool> over;
static std::atomic<long> wrong, caught;

struct Slow {
	~Slow()
	{
		usleep(150000);
	}
};

static int compare(const void *, const void *)
{
	Slow slow;

	throw std::runtime_error("on its way");
}

static void throws()
{
	while (!over) {
		int values[] = {2, 1};

		try {
			std::qsort(values, 2, sizeof(values[0]), compare);
			wrong++;
		} catch (const std::runtime_error &) {
			caught++;
		}
	}
}

int main()
{
	std::vector<std::thread> threads;
	char line[8];

	for (int i = 0; i < 3; i++)
		threads.emplace_back(throws);
	std::puts("ready");
	std::fflush(stdout);
	if (!std::fgets(line, sizeof(line), stdin))
		return 1;
	over = true;
	for (std::thread &thread : threads)
		thread.join();
	std::printf("wrong %ld, some %d\n", wrong.load(), caught > 0);
	return wrong ? 2 : 7;
}
