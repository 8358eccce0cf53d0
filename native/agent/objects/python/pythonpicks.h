// SPDX-License-Identifier: Apache-2.0
/** Sampling of CPython's objects. */
#ifndef SOSC_PYTHONPICKS_H
#define SOSC_PYTHONPICKS_H

#include "objects/python/python.h"

#pragma GCC visibility push(hidden)

int sosc_python_referenced_pick(uint64_t object);
int sosc_python_traced_pick(void *object, int event, void *data);
int sosc_python_traced(void *object, int event, void *data);
void sosc_python_hear_of_large(bool is_ours);

#pragma GCC visibility pop

#endif
