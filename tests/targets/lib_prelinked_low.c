// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-fuse-ld=bfd -Wl,-Ttext-segment=0x3f000000000
// Linked to an address of its own below all mappings, as prelink(8) did.
#include "lib_ctor_array.c"
