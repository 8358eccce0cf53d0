# SPDX-License-Identifier: Apache-2.0
"""How DWARF stores the values of attributes (DWARF 5, 7.5.6)."""

from __future__ import annotations

STRING, STRP, LINE_STRP, STRX, UDATA, SDATA, BLOCK = range(7)  # ways to read a form
REFERENCE, ABSOLUTE, IMPLICIT, PRESENT, INDIRECT, FIXED = range(7, 13)
FORMS = {
    0x01: (FIXED, 8),  # addr
    0x03: (BLOCK, 2),
    0x04: (BLOCK, 4),
    0x05: (FIXED, 2),
    0x06: (FIXED, 4),
    0x07: (FIXED, 8),
    0x08: (STRING, 0),
    0x09: (BLOCK, 0),
    0x0A: (BLOCK, 1),
    0x0B: (FIXED, 1),
    0x0C: (FIXED, 1),
    0x0D: (SDATA, 0),
    0x0E: (STRP, 4),
    0x0F: (UDATA, 0),
    0x10: (ABSOLUTE, 4),
    0x11: (REFERENCE, 1),
    0x12: (REFERENCE, 2),
    0x13: (REFERENCE, 4),
    0x14: (REFERENCE, 8),
    0x15: (REFERENCE, 0),
    0x16: (INDIRECT, 0),
    0x17: (FIXED, 4),  # sec_offset
    0x18: (BLOCK, 0),  # exprloc
    0x19: (PRESENT, 0),
    0x1A: (STRX, 0),
    0x1B: (UDATA, 0),  # addrx
    0x1C: (FIXED, 4),  # ref_sup4, in a supplementary file
    0x1D: (FIXED, 4),
    0x1E: (FIXED, 16),
    0x1F: (LINE_STRP, 4),
    0x20: (FIXED, 8),  # ref_sig8
    0x21: (IMPLICIT, 0),
    0x22: (UDATA, 0),
    0x23: (UDATA, 0),
    0x24: (FIXED, 8),
    0x25: (STRX, 1),
    0x26: (STRX, 2),
    0x27: (STRX, 3),
    0x28: (STRX, 4),
    0x29: (FIXED, 1),
    0x2A: (FIXED, 2),
    0x2B: (FIXED, 3),
    0x2C: (FIXED, 4),
    0x1F20: (FIXED, 4),  # GNU_ref_alt
    0x1F21: (FIXED, 4),  # GNU_strp_alt
}
SIGNED_FORMS = {0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1}
