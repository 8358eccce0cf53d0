// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-static-libgcc -static-libstdc++
// The same with an unwinder inside, that nobody else can see.
#include "lib_space_throw.cc"
