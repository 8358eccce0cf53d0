// SPDX-License-Identifier: Apache-2.0
// The distance in bytes from one chosen byte to the next, drawn beforehand: code that samples only
// has to count bytes down.

#include "base/sampling.h"
#include "base/clock.h"

enum { FRACTION = 32 }; // fraction bits of a logarithm

/**
 * Return a seed that is never 0. @different is a value that tells this owner from other owners at
 * the same time.
 */
uint64_t sosc_chance_seed(uint64_t different)
{
	uint64_t seed = sosc_ticks() ^ different;

	// as in splitmix64: similar seeds lead to different sequences
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

// Returns -log2(@x / 2^64) as a fixed-point number. Squaring yields the fraction bits.
static uint64_t minus_log2(uint64_t x)
{
	uint32_t zeros = (uint32_t)__builtin_clzll(x);
	uint64_t rest = x << zeros >> 1, log = 63 - zeros; // rest lies in [1, 2), times 2^62

	for (uint32_t i = 0; i < FRACTION; i++) {
		rest = (uint64_t)((unsigned __int128)rest * rest >> 62);
		log = log << 1 | rest >> 63;
		rest >>= rest >> 63;
	}
	return (64ull << FRACTION) - log;
}

/**
 * Return the distance in bytes to the next chosen byte. It is exponentially distributed and rounded
 * up, so each byte is equally likely to be chosen. @scale: bytes, times 2^16, per unit of a
 * logarithm to base 2.
 */
uint64_t sosc_chance_draw(uint64_t *seed, uint64_t scale)
{
	unsigned __int128 bytes = (unsigned __int128)minus_log2(next_random(seed)) * scale;

	return 1 + (uint64_t)(bytes >> (FRACTION + 16));
}
