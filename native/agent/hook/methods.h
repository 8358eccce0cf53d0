// SPDX-License-Identifier: Apache-2.0
/**
 * Python's method tables: arrays of struct sosc_method_def (CPython's PyMethodDef) in the data of
 * extensions. The interpreter reads an entry's function at each call.
 */
#ifndef SOSC_METHODS_H
#define SOSC_METHODS_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_hooking;
struct sosc_loaded;

struct sosc_method_def {
	const char *name;
	uint64_t function;
	uint64_t flags; // an int: the calling convention
	const char *doc;
};

struct sosc_method {
	uint64_t addr; // address of its struct sosc_method_def
	const char *owner; // name of the module or type, NULL if unknown
};

struct sosc_methods { // the methods of one image
	struct sosc_method *found; // sorted by address
	uint64_t count, size; // number of methods; bytes of memory
	struct sosc_loaded *interpreter;
};

void sosc_methods_again(void);
bool sosc_methods_begin(struct sosc_hooking *work);
void sosc_methods_end(struct sosc_methods *methods);
uint64_t sosc_methods_pages(const struct sosc_loaded *image);
void sosc_find_methods(struct sosc_hooking *work, uint64_t page);
void sosc_name_methods(struct sosc_hooking *work, uint64_t page);
bool sosc_methods_wait(struct sosc_hooking *work, bool turns);
void sosc_hook_method(struct sosc_hooking *work, uint64_t i);

// methodobjects.c
struct sosc_loaded *sosc_interpreter(uint32_t ns);
bool sosc_has_interpreter(uint32_t ns);
bool sosc_methodobjects_are_minded(void);
bool sosc_methodobjects_mind(uint32_t ns);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_method_def) == 32, "PyMethodDef");

#endif
