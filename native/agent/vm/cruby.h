// SPDX-License-Identifier: Apache-2.0
/** Ruby's internals (CRuby 2.7 and newer): objects, and which version an image is. */
#ifndef SOSC_CRUBY_H
#define SOSC_CRUBY_H

#include "base/agent.h"
#include "soscope/objects.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

typedef uint64_t sosc_value; // VALUE: an object's address, or an immediate value

enum sosc_ruby_kind { // ruby/internal/value_type.h: RUBY_T_...
	KIND_NONE = 0,
	KIND_CLASS = 2,
	KIND_MODULE = 3,
	KIND_STRING = 5,
	KIND_ARRAY = 7,
	KIND_DATA = 12,
	KIND_IMEMO = 0x1a,
	KIND_NODE = 0x1b,
	KIND_ICLASS = 0x1c,
	KIND_ZOMBIE = 0x1d,
	KIND_MOVED = 0x1e,
};

static inline uint64_t sosc_ruby_flags(sosc_value object)
{
	return *(const uint64_t *)object;
}

static inline uint32_t sosc_ruby_kind(sosc_value object)
{
	return (uint32_t)sosc_ruby_flags(object) & SOSC_RUBY_KIND;
}

static inline sosc_value sosc_ruby_class(sosc_value object)
{
	return *(const uint64_t *)(object + 8);
}

static inline bool sosc_ruby_is_code(uint64_t flags)
{
	return (flags & SOSC_RUBY_KIND) == KIND_IMEMO && (flags >> 12 & 15) == 7; // imemo_iseq
}

// rubycontext.c
bool sosc_ruby_is_in(const struct sosc_loaded *image);
uint32_t sosc_ruby_version(const char *version);

#pragma GCC visibility pop

#endif
