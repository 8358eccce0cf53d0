// SPDX-License-Identifier: Apache-2.0
// Objects and types of a Python of a few lines: what the tests of those that look at them share.
#ifndef HEAP_H
#define HEAP_H

#include "host.h"

#include "objects/common/objects.h"
#include "objects/python/python.h"

#include <stddef.h>
#include <string.h>

enum { HAS_GC = 1 << 14, HEAP = 1 << 9, DICT = 1 << 29, LIST_MOST = 8 };

#define SUBCLASS (1ull << 31)

typedef int visitor(void *object, void *argument);

struct type {
	uint64_t count;
	struct type *type;
	uint64_t unused[19], flags, unused2, traverse, unused3[17], is_gc, unused4[8];
};

_Static_assert(offsetof(struct type, flags) == 168, "tp_flags");
_Static_assert(offsetof(struct type, traverse) == 184, "tp_traverse");
_Static_assert(offsetof(struct type, is_gc) == 328, "tp_is_gc");

struct object {
	uint64_t count;
	struct type *type;
	struct object *refers[2];
};

struct block {
	uint64_t head[2]; // of the collector's
	struct object object;
};

struct list {
	uint64_t count;
	struct type *type;
	uint64_t size;
	struct object **at, *items[LIST_MOST];
};

static int traverse(struct object *object, visitor *visit, void *argument)
{
	for (int i = 0; i < 2; i++)
		if (object->refers[i])
			(void)visit(object->refers[i], argument);
	return 0;
}

static int has_head(void *object);

// Types of a program have a head, static ones have none.
static struct type meta = {1, &meta, .flags = SUBCLASS | HAS_GC, .is_gc = (uint64_t)has_head};
static struct type plain = {1, &meta};
static struct type holder = {1, &meta, .flags = HAS_GC, .traverse = (uint64_t)traverse};

static int has_head(void *object)
{
	return (((struct type *)object)->flags & HEAP) != 0;
}

static void increase(void *object)
{
	++*(uint64_t *)object;
}

#endif
