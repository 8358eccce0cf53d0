// SPDX-License-Identifier: Apache-2.0
// What compilers make of a function that is called several times, with a known answer:
// only_* do nothing with callee's address but call it, keep_* look at it. callee is in
// another object, so its address comes from a slot.
#define EXPORT __attribute__((visibility("default"), noinline))

extern long callee(long x) __attribute__((weak)); // may be compared with null
extern long other(long x);
extern long take(long (*function)(long), long x);
extern long (*sink)(long);
extern volatile long noise;

EXPORT long only_twice(long x)
{
	return callee(x) + callee(x + 1);
}

EXPORT long only_loop(long x)
{
	long sum = 0;

	for (long i = 0; i < x + 2; i++)
		sum += callee(i) + callee(sum);
	return sum;
}

EXPORT long only_branches(long x)
{
	long sum = callee(x);

	if (noise & 1)
		sum += callee(sum) * 3;
	else if (x & 2)
		sum -= callee(sum + 7);
	while (sum & 7)
		sum += callee(sum) | 1;
	return sum;
}

EXPORT long only_reused(long x)
{
	long sum = callee(x) + callee(x);

	sum += other(x) + other(sum) + other(sum + 1);
	return sum + callee(sum);
}

EXPORT long only_early(long x)
{
	if (!callee(x))
		return 0;
	if (noise > 100)
		return other(x);
	return callee(x) ^ callee(x + 1);
}

EXPORT long any_tail(long x)
{
	noise = callee(x);
	noise += callee(x + 1);
	return callee(x);
}

EXPORT long keep_stored(long x)
{
	long sum = callee(x) + callee(x + 1);

	sink = callee;
	return sum + callee(sum) + (sink == callee);
}

EXPORT long keep_passed(long x)
{
	return callee(x) + callee(x) + take(callee, x) + callee(2);
}

EXPORT long keep_compared(long x)
{
	long sum = callee(x) + callee(x);

	return sum + (sink == callee) + callee(sum);
}

EXPORT long keep_result(long x)
{
	noise = callee(x) + callee(x);
	return (long)callee;
}

EXPORT long keep_arithmetic(long x)
{
	long sum = callee(x) + callee(x + 1);

	return sum + ((long)callee & 0xfff) * callee(x);
}

EXPORT long keep_and_not(long x)
{
	long sum = callee(x) + callee(x + 1);

	sum += callee(x);
	return (~(long)callee & noise) + (~(long)callee & x) + sum;
}

EXPORT long keep_rarely(long x)
{
	long sum = 0;

	for (long i = 0; i < 4; i++) {
		sum += callee(x + i);
		if (noise == 12345)
			sink = callee;
		sum += callee(i);
	}
	return sum;
}

EXPORT long keep_late(long x)
{
	long sum = callee(x);

	for (long i = 0; i < x; i++)
		sum += callee(i) + other(sum);
	return take(callee, sum);
}

EXPORT long keep_chosen(long x)
{
	long (*function)(long) = noise & 1 ? callee : other;

	callee(x);
	callee(x);
	sink = function;
	return function(x) + callee(x) + function(x + 1);
}

EXPORT long any_on_stack(long x)
{
	long (*volatile table[2])(long) = {callee, other};

	return callee(x) + callee(x) + table[x & 1](x) + (long)table[0];
}

EXPORT long keep_asm(long x)
{
	long (*function)(long) = callee;
	long sum = callee(x) + callee(x);

	__asm__ volatile("" : "+r"(function));
	return sum + (long)function + callee(x);
}

EXPORT long any_switch(long x)
{
	long sum = callee(x) + callee(x + 1);

	switch (noise & 15) {
	case 0:
		return sum + callee(1) * 3;
	case 1:
		return sum - callee(2);
	case 2:
		return sum * callee(3);
	case 3:
		return (long)callee;
	case 4:
		sink = callee;
		return sum;
	case 5:
		return sum ^ callee(9);
	case 6:
		return take(callee, sum);
	case 7:
		return callee(sum) + callee(7);
	default:
		return sum;
	}
}

EXPORT long only_tested(long x)
{
	long sum = 0;

	for (long i = 0; i < x + 2; i++)
		if (callee)
			sum += callee(i) + noise;
	return sum;
}

EXPORT long any_tested_once(long x)
{
	return callee ? callee(x) : 0;
}

EXPORT long keep_a_byte(long x)
{
	return ((long)callee >> 8 & 0xff) + x;
}

EXPORT long keep_tested(long x)
{
	if (callee && noise > -5)
		sink = callee;
	return callee(x) + (long)sink;
}
