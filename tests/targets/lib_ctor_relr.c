// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-fuse-ld=bfd -Wl,-z,pack-relative-relocs
// DT_RELR: the array of constructors is relocated by a packed entry.
#include "lib_ctor_array.c"
