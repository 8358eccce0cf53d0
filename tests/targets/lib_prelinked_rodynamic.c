// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-fuse-ld=lld -Wl,--image-base=0x3e000000000,-z,rodynamic
// The same by another linker, and the loader may not write to its dynamic section.
#include "lib_ctor_array.c"
