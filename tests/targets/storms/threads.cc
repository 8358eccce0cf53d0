// SPDX-License-Identifier: Apache-2.0
// A storm in C++: threads that allocate, throw, end, load, fork, jump and switch stacks at once.
//
//	threads [SECONDS]
//
// It prints "ready". SECONDS later, or else when a line comes, and not before each kind of thread
// has done its least, it prints what they have done as one line of JSON, and ends with 7. Whoever
// finds a wrong result aborts.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace {

std::atomic<bool> over;

struct Kind {
	const char *name;
	long least;
	void (*turn)();
	std::atomic<long> done;
};

void expect(bool is_right, const char *what)
{
	if (!is_right) {
		fprintf(stderr, "storm: wrong: %s\n", what);
		abort();
	}
}

unsigned drawn(unsigned below)
{
	static thread_local uint64_t state = reinterpret_cast<uintptr_t>(&state) | 1;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return static_cast<unsigned>(state >> 33) % below;
}

// Blocks keep their content, whatever happens between.
void allocate()
{
	struct Block {
		unsigned char *at;
		size_t size;
	};
	static thread_local std::vector<Block> kept(128);
	for (int turn = 0; turn < 500; turn++) {
		Block &block = kept[drawn(128)];
		size_t size = 1 + drawn(drawn(50) ? 900 : 300000);
		if (block.at)
			expect(block.at[block.size - 1] == (block.size & 255), "a block's end");
		switch (drawn(4)) {
		case 0:
			free(block.at);
			block.at = static_cast<unsigned char *>(malloc(size));
			break;
		case 1:
			block.at = static_cast<unsigned char *>(realloc(block.at, size));
			break;
		case 2:
			free(block.at);
			block.at = static_cast<unsigned char *>(calloc(size, 1));
			expect(!block.at[0], "calloc");
			break;
		default:
			operator delete(operator new(size));
			continue;
		}
		block.at[size - 1] = size & 255;
		block.size = size;
	}
}

void throws()
{
	try {
		operator delete(operator new(size_t{1} << 61));
		expect(false, "2^61 bytes");
	} catch (const std::bad_alloc &) {
	}
	try {
		std::string kept(300, 'k');
		throw std::string(100, 'x');
	} catch (const std::string &thrown) {
		expect(thrown.size() == 100, "what is thrown");
	}
}

void *brief(void *number)
{
	std::string text(100, 'x');
	if (reinterpret_cast<uintptr_t>(number) & 1)
		pthread_exit(malloc(3));
	return malloc(5);
}

void threads()
{
	pthread_t made[4];
	for (uintptr_t number = 0; number < 4; number++)
		expect(!pthread_create(&made[number], nullptr, brief,
				       reinterpret_cast<void *>(number)),
		       "pthread_create");
	for (pthread_t thread : made) {
		void *result = nullptr;
		expect(!pthread_join(thread, &result) && result, "pthread_join");
		free(result);
	}
}

void loads()
{
	void *zlib = dlopen("libz.so.1", RTLD_NOW), *bzip = dlopen("libbz2.so.1.0", RTLD_LAZY);
	expect(zlib && bzip, "dlopen");
	auto version = reinterpret_cast<const char *(*)()>(dlsym(zlib, "zlibVersion"));
	expect(version && version()[0] == '1', "zlibVersion");
	dlclose(bzip);
	dlclose(zlib);
	usleep(300);
}

void forks()
{
	pid_t child = drawn(2) ? fork() : vfork();
	if (!child)
		_exit(7);
	int status = 0;
	expect(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child's end");
	child = fork();
	if (!child) {
		free(malloc(100));
		_exit(8);
	}
	expect(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 8, "a child's end");
	usleep(1000);
}

thread_local ucontext_t home, routines[4];

void routine(int number)
{
	for (;;) {
		std::string text(50 + number, 'y');
		free(malloc(20 + number));
		swapcontext(&routines[number], &home);
		expect(text.size() == 50u + number, "a coroutine's own");
	}
}

void switches()
{
	enum { SIZE = 65536 };
	void *stacks[4];
	for (int number = 0; number < 4; number++) {
		stacks[number] = mmap(nullptr, SIZE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		expect(stacks[number] != MAP_FAILED, "mmap");
		ucontext_t &context = routines[number];
		getcontext(&context);
		context.uc_stack.ss_sp = stacks[number];
		context.uc_stack.ss_size = SIZE;
		context.uc_link = nullptr;
		makecontext(&context, reinterpret_cast<void (*)()>(routine), 1, number);
	}
	for (int turn = 0; turn < 40; turn++)
		for (ucontext_t &context : routines)
			swapcontext(&home, &context);
	for (void *stack : stacks)
		munmap(stack, SIZE);
}

// Its thread is sent SIGUSR1 all the time: out of malloc by siglongjmp, else a malloc in a handler.
pthread_t jumper;
std::atomic<bool> jumps_begun;
thread_local sigjmp_buf back;
thread_local volatile sig_atomic_t is_armed;

void on_signal(int)
{
	if (is_armed) {
		is_armed = 0;
		siglongjmp(back, 1);
	}
}

void jumps()
{
	jumper = pthread_self();
	jumps_begun = true;
	if (!sigsetjmp(back, 1)) {
		is_armed = 1;
		while (is_armed && !over) { // hooked calls that hold no lock of the C library's
			char text[32];
			expect(strlen(strncpy(text, "interrupted", sizeof text)) == 11, "strlen");
			getppid();
		}
		is_armed = 0;
	}
}

Kind kinds[] = {
	{"allocate", 1000, allocate, {}}, {"throws", 1000, throws, {}},
	{"threads", 500, threads, {}},	  {"loads", 300, loads, {}},
	{"forks", 100, forks, {}},	  {"switches", 500, switches, {}},
	{"jumps", 500, jumps, {}},
};

double now()
{
	timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

bool is_done()
{
	for (Kind &kind : kinds)
		if (kind.done < kind.least)
			return false;
	return true;
}

} // namespace

int main(int argc, char **argv)
{
	double end = argc > 1 ? now() + strtod(argv[1], nullptr) : 0;
	pollfd input = {0, POLLIN, 0};
	struct sigaction action = {};
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, nullptr);
	std::vector<std::thread> running;
	for (Kind &kind : kinds)
		running.emplace_back([&kind] {
			while (!over) {
				kind.turn();
				kind.done++;
			}
		});
	printf("ready\n");
	fflush(stdout);
	while ((end ? now() < end : !poll(&input, 1, 0)) || !is_done()) {
		usleep(1000);
		if (jumps_begun)
			pthread_kill(jumper, SIGUSR1);
	}
	over = true;
	for (std::thread &thread : running)
		thread.join();
	char separator = '{';
	for (Kind &kind : kinds) {
		printf("%c\"%s\": %ld", separator, kind.name, kind.done.load());
		separator = ',';
	}
	printf("}\n");
	return 7;
}
