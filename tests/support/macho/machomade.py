# SPDX-License-Identifier: Apache-2.0
"""Every image that `machoshapes` makes, by name: one for each thing that a reader can miss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

from tests.support.macho import machoshapes as s
from tests.support.macho import machowriter as w
from tests.support.macho.machofixups import (
    ARM64E,
    ARM64E_KERNEL,
    ARM64E_USERLAND,
    ARM64E_USERLAND24,
    KEYS,
    PTR_32,
    PTR_64,
    PTR_64_OFFSET,
)

FLAT_SPACE = 4  # MH_DYLDLINK without MH_TWOLEVEL
SELECTORS = ("count", "init:with:", "x" * 300)

# Every key, several diversities, with the slot's address in the signature and without.
_SIGNED = tuple(
    want._replace(signed=(KEYS[number % 4], number * 0x1357 & 0xFFFF, number % 3 != 0))
    for number, want in enumerate(s.WANTS)
)
_ALL = (*s.WANTS, *s.WEAK_WANTS)
_CLASSIC = {
    "ppc": ("stub1", "pic"),
    "ppc64": ("stub1", "pic"),
    "i386": ("stub", "stub16", "pic", "jump"),
    "x86_64": ("stub",),
}
_FORMS = {
    "i386": (PTR_32,),
    "x86_64": (PTR_64, PTR_64_OFFSET),
    "arm64": (PTR_64, PTR_64_OFFSET),
    "arm64e": (ARM64E, ARM64E_KERNEL, ARM64E_USERLAND, ARM64E_USERLAND24),
}
KINDS = {"dylib": w.DYLIB, "executable": w.EXECUTE}


_Maker = Callable[[], s.Made]


def _classic() -> Iterator[tuple[str, _Maker]]:
    for arch, styles in _CLASSIC.items():
        for style in styles:
            for name, kind in KINDS.items():
                if (arch, style, kind) == ("ppc64", "stub1", w.EXECUTE):
                    continue  # it lies where two halves of an address do not reach
                yield f"classic-{arch}-{style}-{name}", partial(s.classic, arch, style, kind=kind)
    yield "classic-i386-flat", partial(s.classic, "i386", "stub", flags=FLAT_SPACE)
    yield "classic-ppc-flat", partial(s.classic, "ppc", "stub1", flags=FLAT_SPACE)


def _info() -> Iterator[tuple[str, _Maker]]:
    for arch in ("i386", "x86_64", "armv7", "arm64", "arm64_32"):
        for name, kind in KINDS.items():
            yield f"info-{arch}-{name}", partial(s.dyld_info, arch, kind=kind)
        yield f"info-{arch}-last", partial(s.dyld_info, arch, header_last=True)
        yield f"info-{arch}-bundle", partial(s.dyld_info, arch, kind=w.BUNDLE)
    yield "info-arm64-literal", partial(s.dyld_info, "arm64", style="literal")


def _chained() -> Iterator[tuple[str, _Maker]]:
    for arch, forms in _FORMS.items():
        wants = _SIGNED if arch == "arm64e" else _ALL
        names = () if arch == "i386" else SELECTORS
        for form in forms:
            for number in (1, 2, 3):
                yield (
                    f"chained-{arch}-{form}-{number}",
                    partial(s.chained, arch, wants, form=form, imports=number, selectors=names),
                )
    unnamed = partial(s.chained, selectors=SELECTORS, named=False)
    for arch in ("x86_64", "arm64", "arm64e"):
        form = _FORMS[arch][0]
        yield f"objc-{arch}-unnamed", partial(unnamed, arch, form=form, kind=w.EXECUTE)
    yield "objc-arm64-small", partial(unnamed, "arm64", form=PTR_64_OFFSET, objc="small")


_MAKERS = dict([*_classic(), *_info(), *_chained()])
NAMES = tuple(_MAKERS)


@cache
def made(name: str) -> s.Made:
    """Return one of `NAMES`."""
    return _MAKERS[name]()
