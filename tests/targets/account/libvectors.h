// SPDX-License-Identifier: Apache-2.0
// A library whose functions take and return vectors, in registers of SSE and of AVX.
#include <immintrin.h>

typedef int four __attribute__((vector_size(16)));
typedef short half __attribute__((vector_size(8)));
typedef unsigned char bytes __attribute__((vector_size(16)));
struct lone {
	__m128d v;
};
struct mixed {
	float x;
	__m128 v;
};
union either {
	__m128 v;
	float f[4];
};

__m128 v_sum(__m128 a, double d, __m128 b);
four v_four(int n, four a, four b, four c);
half v_half(half a, half b);
bytes v_bytes(bytes a);
__m128i v_long(__m128i a, long n);
struct lone v_lone(struct lone a);
struct mixed v_mixed(struct mixed a, int n);
union either v_either(union either a);
__m128 v_ten(__m128 a, __m128 b, __m128 c, __m128 d, __m128 e, __m128 f, __m128 g, __m128 h, long n,
	     __m128 i, __m128 j);
__m256d v_wide(__m256d a, __m128 b, float f, __m256d c);
__m256i v_wide_long(__m256i a);
