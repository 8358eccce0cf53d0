// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Exceptions through hooked frames: thrown, caught, thrown on, through 51 levels,
// with destructors on the way, and one that a C library has in the middle.
#include "leaf.h"
#include "truth.h"

#include <cstdio>
#include <stdexcept>
#include <string>

COUNTED(f0);
COUNTED(fcall);

static long destroyed;

struct Guard {
	~Guard()
	{
		destroyed += CALL(f0, 0);
	}
};

static int throws(int x)
{
	Guard guard;
	if (x % 3 == 0)
		throw std::runtime_error(std::to_string(x));
	throw x;
}

static int rethrows(int x)
{
	try {
		return CALL(fcall, throws, x);
	} catch (const std::exception &) {
		throw;
	} catch (int) {
		throw;
	}
}

static int nest(int depth)
{
	Guard guard;
	return depth ? CALL(fcall, nest, depth - 1) : throws(1);
}

template <typename Function> static int caught(Function function, int x)
{
	try {
		CALL(fcall, function, x);
	} catch (const std::exception &error) {
		return std::stoi(error.what());
	} catch (int value) {
		return -value;
	}
	return 1 << 20;
}

static int safe(int) noexcept
{
	try {
		return CALL(fcall, nest, 3);
	} catch (int x) {
		return x;
	}
}

int main()
{
	long sum = 0;
	for (int i = 0; i < 1000; i++)
		sum += caught(throws, i);
	for (int i = 0; i < 1000; i++)
		sum += caught(rethrows, i);
	for (int i = 0; i < 100; i++)
		sum += caught(nest, 50);
	for (int i = 0; i < 10; i++)
		sum += CALL(fcall, safe, 0);
	std::string name = "unfinished";
	try { // an exception of the standard library itself
		(void)name.at(100);
	} catch (const std::out_of_range &) {
		sum++;
	}
	REPORT(f0);
	REPORT(fcall);
	std::printf("throw %ld %ld\n", sum, destroyed);
}
