# SPDX-License-Identifier: Apache-2.0
"""Which decoder reads the code of which architecture."""

from __future__ import annotations

from soscope.binfmt.listing.base import Lister


def lister_of(arch: str, bits: int, order: str, base: int = 0) -> Lister | None:
    """Return a decoder for `arch`, as model/filemap.py names it; None where there is none.

    `base` is what a register holds that position-independent code counts from, 0: unknown.
    A decoder is imported when it is needed.
    """
    if arch in ("x86-64", "x86_64", "x86_64h", "i386"):
        from soscope.binfmt.listing.x86 import X86

        return X86(bits, order, base)
    if arch in ("aarch64", "arm64", "arm64e"):
        from soscope.binfmt.listing.aarch64 import Aarch64

        return Aarch64(bits, order, base)
    if arch == "arm":
        from soscope.binfmt.listing.arm import Arm

        return Arm(bits, order, base)
    if arch in ("riscv64", "riscv32"):
        from soscope.binfmt.listing.riscv import Riscv

        return Riscv(bits, order, base)
    if arch in ("ppc", "ppc64", "ppc64le"):
        from soscope.binfmt.listing.ppc import Ppc

        return Ppc(bits, order, base)
    if arch in ("mips", "mips64"):
        from soscope.binfmt.listing.mips import Mips

        return Mips(bits, order, base)
    if arch == "s390x":
        from soscope.binfmt.listing.s390x import S390x

        return S390x(bits, order, base)
    return None
