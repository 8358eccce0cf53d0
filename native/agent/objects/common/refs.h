// SPDX-License-Identifier: Apache-2.0
/**
 * References between objects of an interpreter, handed to soscope in parts while the interpreter
 * waits. So all references are of one moment, and they take little memory of the process.
 */
#ifndef SOSC_REFS_H
#define SOSC_REFS_H

#include "objects/common/objects.h"

#pragma GCC visibility push(hidden)

extern struct sosc_refs sosc_refs;

bool sosc_refs_begin(void);
void sosc_refs_holder(uint64_t holder, enum sosc_ref kind);
void sosc_refs_tell(uint64_t object, enum sosc_ref kind);
bool sosc_refs_is_first(uint64_t object);
void *sosc_refs_take(uint64_t size);
void sosc_refs_end(void);

#pragma GCC visibility pop

#endif
