# SPDX-License-Identifier: Apache-2.0
"""Arguments of resolvers on s390x, and registers they keep, as published by the loaders."""

from __future__ import annotations

from soscope.inspect.explain.resolvers import (
    BY_OFFSET,
    GLIBC,
    LINK_MAP,
    OFFSET,
    Resolver,
    ResolverArgument,
)

_S390X_GLIBC = (
    ResolverArgument("48(%r15)", -1, LINK_MAP),
    ResolverArgument("56(%r15)", -1, OFFSET),
)

RESOLVERS = (
    Resolver(
        GLIBC,
        "s390x",
        "_dl_runtime_resolve_vx, or _dl_runtime_resolve without the vector facility",
        BY_OFFSET,
        "glibc 2.24 and later",
        "r0, r2-r5, r14, r15",
        "f0 f2 f4 f6; _vx also v24-v31",
        "in the caller's save area, and a frame of 160 bytes or 288 of its own",
        "sysdeps/s390/s390-64/dl-trampoline.h",
        _S390X_GLIBC,
    ),
)
