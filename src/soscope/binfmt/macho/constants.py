# SPDX-License-Identifier: Apache-2.0
"""Numbers of the Mach-O format, with their names in Apple's headers."""

from __future__ import annotations

from soscope.model.arch import arch_of_cputype

# ---- the header ----
MH_BINDATLOAD = 0x8
MH_PREBOUND = 0x10
MH_SPLIT_SEGS = 0x20
MH_TWOLEVEL = 0x80
MH_DYLIB_IN_CACHE = 0x80000000

FILE_KINDS = {
    1: "object",
    2: "executable",
    3: "fvmlib",
    4: "core",
    5: "preload",
    6: "dylib",
    7: "dylinker",
    8: "bundle",
    9: "dylib-stub",
    10: "dsym",
    11: "kext",
    12: "fileset",
    13: "gpu-executable",
    14: "gpu-dylib",
}

_SUBTYPE_MASK = 0x00FFFFFF  # the upper byte holds capabilities


def arch_name(cpu: int, subtype: int) -> str:
    """Return Apple's name of an architecture, "" for an unknown one."""
    arch = arch_of_cputype(cpu)
    if arch is None:
        return ""
    return arch.apple.get(subtype & _SUBTYPE_MASK) or arch.apple[-1]


# ---- load commands ----
LC_REQ_DYLD = 0x80000000
LC_SEGMENT = 0x1
LC_SYMTAB = 0x2
LC_DYSYMTAB = 0xB
LC_LOAD_DYLIB = 0xC
LC_ID_DYLIB = 0xD
LC_SEGMENT_64 = 0x19
LC_LOAD_WEAK_DYLIB = 0x18 | LC_REQ_DYLD
LC_UUID = 0x1B
LC_REEXPORT_DYLIB = 0x1F | LC_REQ_DYLD
LC_LAZY_LOAD_DYLIB = 0x20
LC_ENCRYPTION_INFO = 0x21
LC_DYLD_INFO = 0x22
LC_DYLD_INFO_ONLY = 0x22 | LC_REQ_DYLD
LC_LOAD_UPWARD_DYLIB = 0x23 | LC_REQ_DYLD
LC_ENCRYPTION_INFO_64 = 0x2C
LC_DYLD_EXPORTS_TRIE = 0x33 | LC_REQ_DYLD
LC_DYLD_CHAINED_FIXUPS = 0x34 | LC_REQ_DYLD

# Commands that define a library with an ordinal of the two-level name space, in command order.
DYLIB_COMMANDS = frozenset(
    (
        LC_LOAD_DYLIB,
        LC_LOAD_WEAK_DYLIB,
        LC_REEXPORT_DYLIB,
        LC_LAZY_LOAD_DYLIB,
        LC_LOAD_UPWARD_DYLIB,
    )
)

VM_PROT_WRITE = 2

# ---- sections ----
SECTION_TYPE = 0xFF
S_ZEROFILL = 0x1
S_CSTRING_LITERALS = 0x2
S_LITERAL_POINTERS = 0x5
S_NON_LAZY_SYMBOL_POINTERS = 0x6
S_LAZY_SYMBOL_POINTERS = 0x7
S_SYMBOL_STUBS = 0x8
S_GB_ZEROFILL = 0xC
S_LAZY_DYLIB_SYMBOL_POINTERS = 0x10
S_THREAD_LOCAL_REGULAR = 0x11
S_THREAD_LOCAL_ZEROFILL = 0x12
S_THREAD_LOCAL_VARIABLES = 0x13
S_THREAD_LOCAL_VARIABLE_POINTERS = 0x14

S_ATTR_PURE_INSTRUCTIONS = 0x80000000
S_ATTR_SELF_MODIFYING_CODE = 0x04000000
S_ATTR_SOME_INSTRUCTIONS = 0x00000400

# ---- symbols ----
INDIRECT_SYMBOL_LOCAL = 0x80000000
INDIRECT_SYMBOL_ABS = 0x40000000

N_STAB = 0xE0
N_TYPE = 0x0E
N_EXT = 0x01
N_UNDF = 0x0
N_INDR = 0xA
N_PBUD = 0xC
N_SECT = 0xE
N_WEAK_REF = 0x40
N_WEAK_DEF = 0x80
