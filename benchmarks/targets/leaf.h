// SPDX-License-Identifier: Apache-2.0
#ifndef BENCH_LEAF_H
#define BENCH_LEAF_H

long bench_leaf(long a);
long bench_six(long a, long b, long c, long d, long e, long f);

#endif
