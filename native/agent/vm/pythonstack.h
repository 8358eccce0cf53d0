// SPDX-License-Identifier: Apache-2.0
/**
 * The frames of Python in stacks.
 */
#ifndef SOSC_PYTHONSTACK_H
#define SOSC_PYTHONSTACK_H

#include "base/instrument.h"

#pragma GCC visibility push(hidden)

struct sosc_blocks;
struct sosc_loaded;
struct sosc_thread;

void sosc_python_stacks_start(const struct sosc_blocks *given, struct sosc_blocks *own);
void sosc_python_stacks_see(const struct sosc_loaded *image);
void sosc_python_stacks_forked(void);
void sosc_python_stacks_forget(const struct sosc_loaded *image);
uint32_t sosc_python_stack(uint64_t *frames, uint32_t room, const struct sosc_thread *thread);

/** Fill in the table. Inline, so that sessions without stacks need not load the code page. */
static inline void sosc_language_python(void)
{
	struct sosc_language *language = &sosc_languages[SOSC_LANGUAGE_PYTHON];

	language->start = sosc_python_stacks_start;
	language->see = sosc_python_stacks_see;
	language->forked = sosc_python_stacks_forked;
	language->forget = sosc_python_stacks_forget;
	language->stack = sosc_python_stack;
}

#pragma GCC visibility pop

#endif
