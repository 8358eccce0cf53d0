// SPDX-License-Identifier: Apache-2.0
/**
 * What a program and its agent must agree on, as a number; soscope.instruments.mem.inside makes it.
 */
#ifndef SOSCOPE_TABLES_H
#define SOSCOPE_TABLES_H

#define SOSC_TABLES 0x4c3c5b3ac84dc20ull

#endif
