// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-fuse-ld=bfd -Wl,-Ttext-segment=0x7ffffa000000
// The same above them: moved, it has a load bias below zero.
#include "lib_ctor_array.c"
