// SPDX-License-Identifier: Apache-2.0
// The loader's lists of images: one for each namespace (dlmopen, LD_AUDIT).
//
// glibc 2.35 and newer chain the struct r_debug of each namespace. Older versions keep them in
// _rtld_global._dl_ns[], a private table. It is trusted only if all known fields have the values
// that they must have. A namespace keeps its number for ever. musl has only one namespace.

#include "image/namespace.h"
#include "base/arch.h"
#include "image/image.h"
#include "image/lookup.h"

enum {
	VERSION_CHAINED = 2, // r_version from which on r_next exists
	OLD_STRIDES = 2,
	LIST_MOST = 1 << 16, // most images of a list; soscope's loader.py has the same limit
};

// struct link_namespaces of glibc 2.31, and of 2.32 to 2.34
static const struct {
	uint64_t stride, debug;
} old_layouts[OLD_STRIDES] = {{144, 104}, {152, 112}};

int64_t sosc_errno_offsets[SOSC_NAMESPACES];

static const struct r_debug *base;
static const uint8_t *table; // _dl_ns[], NULL = another kind of loader
static uint64_t stride, debug_at;

static const struct r_debug *next_of(const struct r_debug *debug)
{
	const struct r_debug *next;

	memcpy(&next, debug + 1, sizeof(next)); // r_next of struct r_debug_extended
	return next;
}

static uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

// Returns the number of images of a list. LIST_MOST or more means that the list is damaged and may
// have no end.
static uint64_t length_of(const struct link_map *map)
{
	uint64_t length = 0;

	for (; map && length < LIST_MOST; map = map->l_next)
		length++;
	return length;
}

static bool is_table(const uint8_t *at, uint64_t size, uint64_t stride_)
{
	uint64_t count;

	if (size < (SOSC_NAMESPACES + 1) * stride_)
		return false;
	count = word_at(at + SOSC_NAMESPACES * stride_); // _dl_nns
	return count >= 1 && count <= SOSC_NAMESPACES && word_at(at) == (uint64_t)base->r_map &&
	       (uint32_t)word_at(at + 8) == length_of(base->r_map); // _ns_nloaded
}

/** Find out where the lists are. @loader is the image of ld.so, NULL if it is not known. */
void sosc_namespaces_init(const struct r_debug *r_debug, const struct sosc_loaded *loader)
{
	static const char name[] = "_rtld_global";
	const Elf64_Sym *symbol;
	const uint8_t *at;

	base = r_debug;
	table = NULL;
	if (!loader)
		return;
	symbol = sosc_lookup(loader, name, sosc_gnu_hash(name), "GLIBC_PRIVATE");
	if (!symbol)
		return;
	at = (const void *)(loader->bias + symbol->st_value);
	for (int i = 0; i < OLD_STRIDES; i++)
		if (is_table(at, symbol->st_size, old_layouts[i].stride)) {
			table = at;
			stride = old_layouts[i].stride;
			debug_at = old_layouts[i].debug;
		}
}

/**
 * Find errno's offset in the namespace of @libc by calling its __errno_location, a pure function.
 * Return whether @libc has one. @libc has to be relocated.
 */
bool sosc_errno_find(const struct sosc_loaded *libc)
{
	static const char name[] = "__errno_location";
	const Elf64_Sym *symbol = sosc_lookup(libc, name, sosc_gnu_hash(name), NULL);

	if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return false;
	sosc_errno_offsets[libc->ns] = ((int64_t (*)(void))(libc->bias + symbol->st_value))() -
				       (int64_t)sosc_thread_pointer();
	return true;
}

static struct sosc_namespace list_of(const struct r_debug *debug)
{
	return (struct sosc_namespace){
		.first = length_of(debug->r_map) < LIST_MOST ? debug->r_map : NULL,
		.consistent = debug->r_state == RT_CONSISTENT,
		.removes = debug->r_state == RT_DELETE,
	};
}

static uint32_t from_chain(struct sosc_namespace found[SOSC_NAMESPACES])
{
	uint32_t count = 0;

	for (const struct r_debug *at = base; at && count < SOSC_NAMESPACES; at = next_of(at))
		found[count++] = list_of(at);
	return count;
}

static uint32_t from_table(struct sosc_namespace found[SOSC_NAMESPACES])
{
	uint64_t count = word_at(table + SOSC_NAMESPACES * stride);

	found[0] = list_of(base);
	for (uint64_t i = 1; i < count && i < SOSC_NAMESPACES; i++) {
		const struct r_debug *debug = (const void *)(table + i * stride + debug_at);

		found[i] = list_of(debug);
		if (debug->r_brk != base->r_brk) // this namespace was never used
			found[i] = (struct sosc_namespace){.consistent = true};
	}
	return count < SOSC_NAMESPACES ? (uint32_t)count : SOSC_NAMESPACES;
}

/**
 * Store all namespaces that exist or have existed in @found, by number. Return how many. An empty
 * namespace has no first image. To be called by the loading thread, or while all threads are
 * stopped.
 */
uint32_t sosc_namespaces(struct sosc_namespace found[SOSC_NAMESPACES])
{
	static uint32_t most;
	uint32_t count;

	for (uint32_t ns = 0; ns < most; ns++) // glibc's count may go down
		found[ns] = (struct sosc_namespace){.consistent = true};
	if (base->r_version >= VERSION_CHAINED)
		count = from_chain(found);
	else if (table)
		count = from_table(found);
	else
		found[0] = list_of(base), count = 1;
	if (count > most)
		most = count;
	return most;
}
