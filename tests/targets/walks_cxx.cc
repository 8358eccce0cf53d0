// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-inline -fno-optimize-sibling-calls
// Exceptions beside walks over the stack: thrown below hooked calls, out of a walk's own
// callback, and with a walk in the handler.
#include "walks.h"
#include "leaf.h"
#include "truth.h"

#include <cstdlib>
#include <setjmp.h>
#include <stdexcept>

COUNTED(fcall);

static walked heard;
static jmp_buf back;

static _Unwind_Reason_Code thrower(_Unwind_Context *context, void *data)
{
	walked_add(&heard, (void *)_Unwind_GetIP(context));
	if (heard.count % 5 == 4)
		throw *static_cast<int *>(data);
	return _URC_NO_REASON;
}

static _Unwind_Reason_Code jumper(_Unwind_Context *context, void *data)
{
	walked_add(&heard, (void *)_Unwind_GetIP(context));
	if (heard.count % 5 == 4)
		longjmp(back, *static_cast<int *>(data));
	return _URC_NO_REASON;
}

static int catches(int x)
{
	try {
		_Unwind_Backtrace(thrower, &x);
	} catch (int thrown) {
		CHECK(thrown == x);
		CHECK(walk(&heard) == _URC_END_OF_STACK);
	}
	if (!setjmp(back))
		_Unwind_Backtrace(jumper, &x);
	return x;
}

static int throws(int x)
{
	void *frames[20];
	int count = backtrace(frames, 20);

	for (int i = 0; i < count; i++)
		walked_add(&heard, frames[i]);
	if (x % 2)
		throw std::runtime_error("odd");
	return catches(x);
}

static int deeper(int x)
{
	return CALL(fcall, throws, x) + 1;
}

int main()
{
	int caught = 0;

	for (int i = 1; i < 200; i++) {
		try {
			(void)(CALL(fcall, deeper, i));
		} catch (const std::runtime_error &) {
			caught++;
			CHECK(walk(&heard) == _URC_END_OF_STACK);
		}
	}
	printf("caught %d; %d frames %lx\n", caught, heard.count, heard.hash);
	REPORT(fcall);
	return 0;
}
