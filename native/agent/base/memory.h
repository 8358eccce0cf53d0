// SPDX-License-Identifier: Apache-2.0
/** Memory that may be read-only or unmapped. */
#ifndef SOSC_MEMORY_H
#define SOSC_MEMORY_H

#include "base/agent.h"

enum { SOSC_FEW = 32 }; // at most this many bytes are copied word by word

/** Copy at most SOSC_FEW bytes. The processor's rep movsb takes longer to start. */
static inline void sosc_copy_few(void *to, const void *from, size_t size)
{
	typedef uint64_t __attribute__((aligned(1), may_alias)) eight;
	typedef uint32_t __attribute__((aligned(1), may_alias)) four;
	uint8_t *target = to;
	const uint8_t *source = from;

	if (size >= sizeof(eight)) {
		eight last = *(const eight *)(source + size - sizeof(last));

		for (size_t i = 0; i + sizeof(eight) < size; i += sizeof(eight))
			*(eight *)(target + i) = *(const eight *)(source + i);
		*(eight *)(target + size - sizeof(last)) = last;
	} else if (size >= sizeof(four)) {
		four last = *(const four *)(source + size - sizeof(last));

		*(four *)target = *(const four *)source;
		*(four *)(target + size - sizeof(last)) = last;
	} else {
		for (size_t i = 0; i < size; i++)
			target[i] = source[i];
	}
}

#pragma GCC visibility push(hidden)

bool sosc_write(uint64_t addr, const void *bytes, uint64_t size, bool text);
void sosc_write_often(bool often);
bool sosc_is_readable(uint64_t addr);
uint64_t sosc_read(uint32_t pid, void *to, uint64_t from, uint64_t size);
void sosc_memory_clear(void *at, uint64_t size);
void *sosc_memory_map(uint64_t size);
void sosc_memory_unmap(void *map, uint64_t size);
void sosc_memory_keep(void *map, uint64_t size, void *place);
void sosc_memory_rest(void);
bool sosc_protect(uint64_t start, uint64_t end, int prot);

#pragma GCC visibility pop

#endif
