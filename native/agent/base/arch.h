// SPDX-License-Identifier: Apache-2.0
/**
 * Everything that depends on the processor. arch_<processor>.h defines it under names without the
 * processor. code_<processor>_*.c read the program's code, and arch_<processor>_*.S hold the
 * handlers.
 */
#ifndef SOSC_ARCH_H
#define SOSC_ARCH_H

#if defined(__x86_64__)
#include "base/arch_x86_64.h"
#else
#error "the agent exists for x86-64 alone"
#endif

#endif
