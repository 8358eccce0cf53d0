// SPDX-License-Identifier: Apache-2.0
/** What an object of CPython tells about its block and its past. */
#ifndef SOSC_PYTHONBLOCK_H
#define SOSC_PYTHONBLOCK_H

#include "objects/python/python.h"

#pragma GCC visibility push(hidden)

enum {
	SOSC_TYPE = 8, // ob_type
	SOSC_TYPE_BASIC_SIZE = 32, // tp_basicsize, tp_flags, tp_finalize: the same in all versions
	SOSC_TYPE_FLAGS = 168,
	SOSC_TYPE_FINALIZE = 392,
	SOSC_TYPE_HAS_GC = 1 << 14, // Py_TPFLAGS_HAVE_GC
	SOSC_TYPE_HEAP = 1 << 9, // Py_TPFLAGS_HEAPTYPE
	SOSC_REF_CREATED = 0, // PyRefTracerEvent
	SOSC_REF_DESTROYED = 1,
};

static inline uint64_t sosc_word(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

/** Return the number of 16-byte units in front of an object in its block. */
static inline uint32_t sosc_python_shift_of(uint64_t object)
{
	uint32_t flags = (uint32_t)sosc_word(sosc_word(object + SOSC_TYPE) + SOSC_TYPE_FLAGS);

	return (flags & SOSC_TYPE_HAS_GC ? 1u : 0u) +
	       (flags & sosc_python_layout.head_flags ? 1u : 0u);
}

static inline uint64_t sosc_python_block(uint64_t object, uint32_t shift)
{
	return object - (uint64_t)shift * SOSC_PYTHON_HEAD;
}

/** Up to 3.12, when an object is announced: return whether its finalizer has resurrected it. */
static inline bool sosc_python_is_referenced(uint64_t object)
{
	return *(const uint32_t *)object;
}

/**
 * The same from 3.13 on. An object that has an entry is announced again if it comes from a free
 * list, and if its finalizer has resurrected it. Classes that a program defines have no free list.
 */
static inline bool sosc_python_has_finalizer(uint64_t object)
{
	uint64_t type = sosc_word(object + SOSC_TYPE);

	return sosc_word(type + SOSC_TYPE_FINALIZE) &&
	       sosc_word(type + SOSC_TYPE_FLAGS) & SOSC_TYPE_HEAP;
}

#pragma GCC visibility pop

#endif
