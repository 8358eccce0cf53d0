// SPDX-License-Identifier: Apache-2.0
// Nodes: functions by their call path, found by a hash. A node is never removed. A signal handler
// may insert a node while its thread is inserting one. Then there may be two equal nodes, which are
// added up later.

#include "call/site.h"
#include "image/image.h"
#include "prof/prof.h"
#include "ring/record.h"

enum {
	PROBES = 64,
	FOLD = 64, // from this depth on, a recursive call of a function has no node of its own
};

// If the tree is deep, returns the offset of the innermost node of the same function around @key,
// or 0 if there is none.
static uint32_t around(struct sosc_prof_table *table, uint64_t key, uint64_t function)
{
	uint32_t found = 0;

	for (uint32_t level = 0; key & SOSC_PROF_INSIDE; level++) {
		const struct sosc_prof_node *node = sosc_prof_node_at(table, key);

		if (!found && node->function == function)
			found = (uint32_t)key;
		if (level >= FOLD)
			return found;
		key = node->key;
	}
	return 0;
}

static void describe(struct sosc_prof_node *node, uint32_t alias, const struct sosc_prof_call *call)
{
	uint64_t from = sosc_site_returns_to(call->from);

	node->from = from ? from : call->from;
	node->site = alias ? alias : call->site;
	node->flags = call->hook;
	if (alias)
		node->flags |= SOSC_PROF_NODE_ALIAS;
	if (sosc_prof_is_unseen(call->hook, call->site))
		node->flags |= SOSC_PROF_NODE_UNSEEN;
}

// Marks pages that have nodes, so that no other page has to be read, which would allocate it.
static void note_page(struct sosc_prof_table *table, uint32_t at)
{
	uint32_t page = at / SOSC_PROF_PAGE_NODES;

	__atomic_fetch_or(&table->filled[page / 64], 1ull << page % 64, __ATOMIC_RELAXED);
}

/** Return the offset of a node, or 0 if there is no room for another one. */
uint64_t sosc_prof_node_slow(struct sosc_prof_table *table, uint64_t key,
			     const struct sosc_prof_call *call)
{
	uint32_t first = sosc_prof_place(key, call->function);

	for (uint32_t probe = 0; probe < PROBES; probe++) {
		uint32_t at = (first + probe) & (SOSC_PROF_NODES - 1), alias;
		struct sosc_prof_node *node = &sosc_prof_nodes(table)[at];
		uint64_t there = __atomic_load_n(&node->key, __ATOMIC_ACQUIRE);

		if (!at)
			continue;
		if (!there) {
			if (__atomic_load_n(&table->nodes, __ATOMIC_RELAXED) >= SOSC_PROF_ROOM)
				return 0;
			alias = around(table, key, call->function);
			if (__atomic_compare_exchange_n(&node->key, &there, key, false,
							__ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
				describe(node, alias, call);
				note_page(table, at);
				__atomic_fetch_add(&table->nodes, 1, __ATOMIC_RELAXED);
				__atomic_store_n(&node->function, call->function, __ATOMIC_RELEASE);
				return (uint64_t)at << PROF_NODE_SHIFT;
			}
		}
		if (there == key &&
		    __atomic_load_n(&node->function, __ATOMIC_ACQUIRE) == call->function)
			return (uint64_t)at << PROF_NODE_SHIFT;
	}
	return 0;
}

static void mark(uint64_t *addr, const struct sosc_loaded *image)
{
	if (*addr - image->start < image->end - image->start)
		*addr |= sosc_image_number(image) << SOSC_IMAGE_SHIFT;
}

/**
 * @image has been unloaded. Its number is stored in all of its addresses in @table, so that they
 * keep their meaning, and a call in another image at the same addresses finds other nodes. Only
 * this function changes these words of existing nodes.
 */
void sosc_prof_mark(struct sosc_prof_table *table, const struct sosc_loaded *image)
{
	for (uint32_t page = 0; page < SOSC_PROF_NODES / SOSC_PROF_PAGE_NODES; page++) {
		struct sosc_prof_node *node = sosc_prof_nodes(table) + page * SOSC_PROF_PAGE_NODES;

		if (!(table->filled[page / 64] >> page % 64 & 1))
			continue;
		for (uint32_t i = 0; i < SOSC_PROF_PAGE_NODES; i++, node++) {
			mark(&node->key, image);
			mark(&node->function, image);
			mark(&node->from, image);
			if (!(node->flags & SOSC_PROF_NODE_ALIAS))
				mark(&node->site, image);
		}
	}
}
