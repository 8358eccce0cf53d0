// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-static-libgcc -static-libstdc++
// The same with an unwinder of its own inside.
#include "lib_thrower.cc"
