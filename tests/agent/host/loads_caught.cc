// SPDX-License-Identifier: Apache-2.0
// An address that only a handler of an exception looks at. No jump leads there.
#define EXPORT extern "C" __attribute__((visibility("default"), noinline))

extern "C" {
long callee(long x);
long take(long (*function)(long), long x);
extern volatile long noise;
}

EXPORT long keep_in_handler(long x)
{
	long sum = callee(x);

	try {
		sum += callee(x + 1);
		if (noise >= 0)
			throw sum;
	} catch (long caught) {
		return take(callee, caught);
	}
	return sum + callee(x);
}

EXPORT long keep_in_cleanup(long x)
{
	struct guard {
		long *at;
		~guard()
		{
			*at = take(callee, 1);
		}
	};
	long seen = 0;

	try {
		guard cleanup{&seen};

		callee(x);
		callee(x + 1);
		if (noise >= 0)
			throw x;
	} catch (long caught) {
		return seen + caught;
	}
	return callee(x);
}

// The handler stands behind the function's last return.
EXPORT long keep_in_far_handler(long x)
{
	long sum = 0;

	try {
		for (long i = 0; i < x + 3; i++)
			sum += callee(i) + callee(sum);
	} catch (...) {
		return take(callee, x);
	}
	return sum;
}

EXPORT long keep_in_far_cleanup(long x)
{
	struct guard {
		long at;
		~guard()
		{
			take(callee, at);
		}
	} cleanup{x};

	long sum = callee(x);

	while (noise > 5)
		sum += callee(sum) + callee(sum + 1);
	return sum;
}
