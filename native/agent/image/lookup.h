// SPDX-License-Identifier: Apache-2.0
/**
 * Symbols by name and version.
 */
#ifndef SOSC_LOOKUP_H
#define SOSC_LOOKUP_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

uint32_t sosc_gnu_hash(const char *name);
const char *sosc_symbol_name(const struct sosc_loaded *image, uint32_t symbol);
const char *sosc_symbol_version(const struct sosc_loaded *image, uint32_t symbol);
const Elf64_Sym *sosc_lookup(const struct sosc_loaded *image, const char *name, uint32_t hash,
			     const char *version);
bool sosc_imports(const struct sosc_loaded *image, const char *wanted);
bool sosc_exports(const struct sosc_loaded *image, const char *wanted);
bool sosc_is_of_libc(const char *version, const struct sosc_loaded *callee);
const Elf64_Sym *sosc_lookup_all(uint32_t ns, const char *name, const char *version,
				 struct sosc_loaded **provider);
uint64_t sosc_function_addr(uint32_t ns, const char *name);
uint64_t sosc_function_of(const struct sosc_loaded *image, const char *name);

#pragma GCC visibility pop

#endif
