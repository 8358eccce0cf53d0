# SPDX-License-Identifier: Apache-2.0
"""Arguments of resolvers on aarch64, and registers they keep, as published by the loaders."""

from __future__ import annotations

from soscope.inspect.explain.resolvers import (
    BY_OFFSET,
    CACHE,
    DYLD,
    FAST,
    GLIBC,
    GOT_2,
    LAZY_INFO,
    RETURN,
    SLOT,
    Resolver,
    ResolverArgument,
)

_AARCH64_GLIBC = (
    ResolverArgument("x16", -1, GOT_2),
    ResolverArgument("[sp]", 0, SLOT),
    ResolverArgument("[sp, #8]", 1, RETURN),
)
_ARM64_DYLD = (ResolverArgument("[sp]", 0, LAZY_INFO), ResolverArgument("[sp, #8]", 1, CACHE))

RESOLVERS = (
    Resolver(
        GLIBC,
        "aarch64",
        "_dl_runtime_resolve",
        BY_OFFSET,
        "glibc 2.17 and later",
        "x0-x9, x30",
        "q0-q7; of SVE's registers only these halves",
        "208 bytes below a stack that is aligned to 16 already",
        "sysdeps/aarch64/dl-trampoline.S",
        _AARCH64_GLIBC,
    ),
    Resolver(
        DYLD,
        "aarch64",
        "dyld_stub_binder",
        FAST,
        "dyld-353 to dyld-852: up to macOS 11 and iOS 14",
        "x0-x9, x29, x30",
        "q0-q7",
        "240 bytes below a stack that is aligned to 16 already",
        "dyld_stub_binder.s",
        _ARM64_DYLD,
    ),
)

# Capstone's architecture and mode
CAPSTONE = {"aarch64": ("CS_ARCH_ARM64", "CS_MODE_ARM")}
