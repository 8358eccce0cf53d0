# SPDX-License-Identifier: Apache-2.0
"""Arguments of resolvers on RISC-V, and registers they keep, as published by the loaders."""

from __future__ import annotations

from soscope.inspect.explain.resolvers import (
    BY_OFFSET,
    GLIBC,
    LINK_MAP,
    THIRD,
    Resolver,
    ResolverArgument,
)

_RISCV_GLIBC = (ResolverArgument("t0", -1, LINK_MAP), ResolverArgument("t1", -1, THIRD))

RESOLVERS = (
    Resolver(
        GLIBC,
        "riscv64",
        "_dl_runtime_resolve",
        BY_OFFSET,
        "glibc 2.27 and later",
        "a0-a7, ra",
        "fa0-fa7; none of the vector extension",
        "its frame has a multiple of 16 bytes",
        "sysdeps/riscv/dl-trampoline.S",
        _RISCV_GLIBC,
    ),
)

FIRST_WORD = 0  # index in the GOT: the resolver comes first
