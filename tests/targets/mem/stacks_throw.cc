// SPDX-License-Identifier: Apache-2.0
// Blocks of operator new while exceptions pass, whose stacks are told by backtrace(3), too: a line
// `stack SIZE ADDR…` for each, innermost first.
#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
#include <unistd.h>

__attribute__((noinline)) static void *take(long size)
{
	void *frames[100];
	int count = backtrace(frames, 100);
	void *block = size % 2 ? operator new(size) : new char[size];
	char text[4096];
	int at = snprintf(text, sizeof(text), "stack %ld", size);

	for (int i = 0; i < count; i++)
		at += snprintf(text + at, sizeof(text) - at, " %lx", (long)frames[i]);
	text[at++] = '\n';
	if (write(1, text, at) != at)
		abort();
	return block;
}

struct Holder {
	long size;
	~Holder()
	{
		take(size);
	}
};

__attribute__((noinline)) static void thrower(int depth)
{
	Holder holder{301 + depth};

	if (!depth)
		throw depth;
	thrower(depth - 1);
}

struct Base {
	virtual ~Base()
	{
	}
	virtual void *run(long size)
	{
		return take(size);
	}
};

struct Derived : virtual Base {
	void *run(long size) override
	{
		return Base::run(size);
	}
};

int main()
{
	void *warm[4];

	backtrace(warm, 4);
	for (int i = 0; i < 3; i++) {
		try {
			thrower(5);
		} catch (int) {
			take(401 + i);
		}
	}
	Base *volatile base = new Derived;
	for (int i = 0; i < 4; i++)
		base->run(501 + i);
	return 0;
}
