// SPDX-License-Identifier: Apache-2.0
/**
 * What a program and its agent must agree on, as a number; soscope.instruments.mem.inside makes it.
 */
#ifndef SOSCOPE_TABLES_H
#define SOSCOPE_TABLES_H

#define SOSC_TABLES 0x8ddb5fb446cb131ull

#endif
