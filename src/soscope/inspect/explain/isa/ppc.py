# SPDX-License-Identifier: Apache-2.0
"""Arguments of resolvers on PowerPC, and registers they keep, as published by the loaders."""

from __future__ import annotations

from soscope.inspect.explain.resolvers import (
    BY_OFFSET,
    CLASSIC,
    GLIBC,
    HEADER,
    INDEX,
    LAZY_POINTER,
    LINK_MAP,
    OFFSET,
    Resolver,
    ResolverArgument,
)

RESOLVERS = (
    *(
        Resolver(
            GLIBC,
            arch,
            "_dl_runtime_resolve",
            BY_OFFSET,
            "glibc, all versions for ELFv1 and ELFv2",
            "r3-r10, lr",
            "none: the loader keeps off those that have arguments",
            "a frame of its own: the ABI's smallest, and 64 bytes",
            "sysdeps/powerpc/powerpc64/dl-trampoline.S",
            (ResolverArgument("r11", -1, LINK_MAP), ResolverArgument("r0", -1, INDEX)),
        )
        for arch in ("ppc64le", "ppc64")
    ),
    Resolver(
        GLIBC,
        "ppc",
        "_dl_runtime_resolve",
        BY_OFFSET,
        "glibc, all versions",
        "r0, r3-r10, lr, cr",
        "none: the loader keeps off those that have arguments",
        "a frame of 64 bytes of its own",
        "sysdeps/powerpc/powerpc32/dl-trampoline.S",
        (ResolverArgument("r12", -1, LINK_MAP), ResolverArgument("r11", -1, OFFSET)),
    ),
    *(
        Resolver(
            CLASSIC,
            arch,
            "stub_binding_helper_interface",
            "dyld::bindLazySymbol(mach_header, lazy pointer)",
            "for images without LC_DYLD_INFO, every version for PowerPC",
            "r3-r10, lr",
            "none",
            aligns,
            "stub_binding_helper.s",
            (ResolverArgument("r12", -1, HEADER), ResolverArgument("r11", -1, LAZY_POINTER)),
        )
        for arch, aligns in (
            ("ppc", "a frame of 144 bytes of its own"),
            ("ppc64", "a frame of 288 bytes of its own"),
        )
    ),
)

# dyld dropped these machines before it stopped to bind lazily
ALWAYS_LAZY = {"ppc": "ppc", "ppc64": "ppc"}
# bytes of a relocation, for each index that the trampoline gets
INDEX_STEPS = {"ppc64": 24, "ppc64le": 24}
