// SPDX-License-Identifier: Apache-2.0
// What these functions return is made of what they take, so that nothing is left out.
#include "libvectors.h"

__m128 v_sum(__m128 a, double d, __m128 b)
{
	return a + b * (float)d;
}

four v_four(int n, four a, four b, four c)
{
	return a * n + b - c;
}

half v_half(half a, half b)
{
	return a - b;
}

bytes v_bytes(bytes a)
{
	return a + 1;
}

__m128i v_long(__m128i a, long n)
{
	return a - n;
}

struct lone v_lone(struct lone a)
{
	return (struct lone){-a.v};
}

struct mixed v_mixed(struct mixed a, int n)
{
	return (struct mixed){a.x * n, a.v + a.x};
}

union either v_either(union either a)
{
	return (union either){.v = a.v + 1};
}

__m128 v_ten(__m128 a, __m128 b, __m128 c, __m128 d, __m128 e, __m128 f, __m128 g, __m128 h, long n,
	     __m128 i, __m128 j)
{
	return a + b + c + d + e + f + g + h + (float)n + i - j;
}

__m256d v_wide(__m256d a, __m128 b, float f, __m256d c)
{
	return a * f + c - b[0];
}

__m256i v_wide_long(__m256i a)
{
	return a - 1;
}
