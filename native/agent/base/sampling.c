// SPDX-License-Identifier: Apache-2.0
// How many bytes it is from one that is chosen to the next, drawn beforehand: whoever samples only
// has to count them down.

#include "base/sampling.h"
#include "base/clock.h"

enum { FRACTION = 32 }; // bits of a logarithm behind the point

/** A seed that is never 0; @different: what tells its owner from others of this moment. */
uint64_t sosc_chance_seed(uint64_t different)
{
	uint64_t seed = sosc_ticks() ^ different;

	// as in splitmix64: owners whose seeds are alike draw what is not
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111ebull;
	return (seed ^ seed >> 31) | 1;
}

// Marsaglia's xorshift with Vigna's multiplier: 64 bits, never 0.
static uint64_t next_random(uint64_t *seed)
{
	uint64_t x = *seed;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*seed = x;
	return x * 0x2545f4914f6cdd1dull;
}

// -log2(@x / 2^64), as a fixed-point number: the bits behind the point by squaring.
static uint64_t minus_log2(uint64_t x)
{
	uint32_t zeros = (uint32_t)__builtin_clzll(x);
	uint64_t rest = x << zeros >> 1, log = 63 - zeros; // rest: in [1, 2), times 2^62

	for (uint32_t i = 0; i < FRACTION; i++) {
		rest = (uint64_t)((unsigned __int128)rest * rest >> 62);
		log = log << 1 | rest >> 63;
		rest >>= rest >> 63;
	}
	return (64ull << FRACTION) - log;
}

/**
 * How many bytes it is to the next one that is chosen: exponentially distributed and rounded up,
 * each byte is as likely as any other. @scale: bytes, times 2^16, per unit of a logarithm to base 2.
 */
uint64_t sosc_chance_draw(uint64_t *seed, uint64_t scale)
{
	unsigned __int128 bytes = (unsigned __int128)minus_log2(next_random(seed)) * scale;

	return 1 + (uint64_t)(bytes >> (FRACTION + 16));
}
