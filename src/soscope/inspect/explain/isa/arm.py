# SPDX-License-Identifier: Apache-2.0
"""Arguments of resolvers on 32-bit ARM, and registers they keep, as published by the loaders."""

from __future__ import annotations

from soscope.inspect.explain.resolvers import (
    BY_OFFSET,
    GLIBC,
    GOT_2,
    RETURN,
    SLOT,
    Resolver,
    ResolverArgument,
)

_ARM_GLIBC = (
    ResolverArgument("ip", -1, SLOT),
    ResolverArgument("lr", -1, GOT_2),
    ResolverArgument("[sp]", 0, RETURN),
)

RESOLVERS = (
    Resolver(
        GLIBC,
        "arm",
        "_dl_runtime_resolve",
        BY_OFFSET,
        "glibc, all versions",
        "r0-r3",
        "none",
        "r4 is pushed with them: with the word that PLT0 pushed, 24 bytes",
        "sysdeps/arm/dl-trampoline.S",
        _ARM_GLIBC,
    ),
)
