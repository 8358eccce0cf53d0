// SPDX-License-Identifier: Apache-2.0
// Functions that count their own calls, whatever a compiler has them report.
#ifndef REPORTED_H
#define REPORTED_H

#include <stdint.h>

struct counts {
	uint64_t leaf, mid, fib, even, odd;
};

uint64_t leaf(struct counts *counts, uint64_t x);
uint64_t mid(struct counts *counts, uint64_t x);
uint64_t fib(struct counts *counts, unsigned n);
uint64_t even(struct counts *counts, unsigned n);
uint64_t odd(struct counts *counts, unsigned n);

#endif
