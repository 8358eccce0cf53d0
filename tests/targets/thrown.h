// SPDX-License-Identifier: Apache-2.0
#ifndef THROWN_H
#define THROWN_H

extern "C" {
int thrower(int n);
int passes(int depth, int n);
int catcher(int n);
// of thrower, catcher and passes, and of destructors
const unsigned long *thrown_counts();
}

#endif
