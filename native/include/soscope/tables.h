// SPDX-License-Identifier: Apache-2.0
/**
 * A fingerprint of all layouts on which a program and its agent must agree, made by
 * soscope.instruments.mem.inside.
 */
#ifndef SOSCOPE_TABLES_H
#define SOSCOPE_TABLES_H

#define SOSC_TABLES 0x7101c3f5bc69590ull

#endif
