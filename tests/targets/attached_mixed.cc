// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread -ldl
// Runs until a line comes in. Threads throw and catch, load and unload, fork, and allocate;
// each counts what went wrong.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<bool> over;
static std::atomic<long> wrong, thrown, loaded, forked;

static int compare(const void *a, const void *b)
{
	if (*static_cast<const int *>(a) == 13 || *static_cast<const int *>(b) == 13)
		throw std::runtime_error("thirteen");
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

static void throws()
{
	std::vector<int> numbers(5);

	while (!over) {
		int values[] = {5, 13, 2, 8};
		int caught = 0;

		try {
			numbers.at(static_cast<std::size_t>(caught) + 9) = 1;
		} catch (const std::out_of_range &) {
			caught++;
		}
		try {
			std::qsort(values, 4, sizeof(values[0]), compare);
		} catch (const std::runtime_error &error) {
			caught += std::strcmp(error.what(), "thirteen") == 0;
		}
		wrong += caught != 2;
		thrown += caught;
	}
}

static void loads()
{
	while (!over) {
		void *library = dlopen("libanl.so.1", RTLD_NOW | RTLD_LOCAL);

		wrong += !library || (dlclose(library) != 0);
		loaded++;
		usleep(300);
	}
}

static void forks()
{
	while (!over) {
		int status = 0;
		pid_t child = fork();

		if (!child) {
			std::free(std::malloc(100));
			_exit(3);
		}
		wrong += child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
			 WEXITSTATUS(status) != 3;
		forked++;
		usleep(3000);
	}
}

static void allocates()
{
	while (!over) {
		char *text = static_cast<char *>(std::malloc(40));

		std::memset(text, 7, 40);
		wrong += text[0] != 7 || text[39] != 7;
		std::free(text);
	}
}

int main()
{
	std::vector<std::thread> threads;
	char line[8];

	threads.emplace_back(throws);
	threads.emplace_back(loads);
	threads.emplace_back(forks);
	threads.emplace_back(allocates);
	std::puts("ready");
	std::fflush(stdout);
	if (!std::fgets(line, sizeof(line), stdin))
		return 1;
	over = true;
	for (std::thread &thread : threads)
		thread.join();
	std::printf("wrong %ld, some %d\n", wrong.load(), thrown && loaded && forked);
	return wrong ? 2 : 7;
}
