# SPDX-License-Identifier: Apache-2.0
"""The life of one call in one file or in two: which images, and which of their slots."""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.elf.filemap import ElfMap
from soscope.errors import SoscopeError
from soscope.inspect.callsteps import Way
from soscope.inspect.callway import Follower
from soscope.inspect.filecode import ElfCode, FileCode
from soscope.linker.image import Image, Slot
from soscope.model import filemap
from soscope.model.filemap import MACHO

_NOT_SEARCHED = "the code was not searched to its end: there is more of it than the file has bytes"
_MOST_WAYS = 32  # slots of one symbol
_MOST_NEAR = 5
_MOST_NAMES = 100_000  # among which near ones are looked for


class Subject(NamedTuple):
    """What is explained of one image.

    `symbol` is the name that this file has for it; `ways` go through one slot each. Where there
    is none, `near` are names that it may have been mistaken for. `loader` is a constant of
    inspect/resolvers.py, "" where the file does not tell; `partial` says what could not be read.
    """

    path: str
    format: str
    arch: str
    kind: str
    loader: str
    symbol: str
    ways: tuple[Way, ...]
    near: tuple[str, ...]
    partial: tuple[str, ...]


def explain_files(paths: list[str], symbol: str, arch: str | None = None) -> list[Subject]:
    """Explain calls of `symbol` (NAME or NAME@VERSION) in one file or in two.

    Of one fat file up to two slices are explained, of two files the slice of each that suits
    the other one; `arch` chooses. A C function's name may stand with Mach-O's underscore or
    without. Raises OSError, FormatError, SoscopeError (slug no-such-arch).
    """
    files = [Image.open(path) for path in paths]
    opened = [list(one.slices) for one in files]
    if arch is not None:
        chosen = [[one for one in images if one.arch == arch] for images in opened]
        if not any(chosen):
            listed = [", ".join(one.arch for one in images) for images in opened]
            hint = f"there is {listed[0]}"
            if len(paths) > 1:
                parts = zip(paths, listed, strict=True)
                hint = "; ".join(f"in {path} there is {archs}" for path, archs in parts)
            raise SoscopeError(
                f"{' and '.join(paths)}: no image for {arch}", slug="no-such-arch", hint=hint
            )
        opened = [some or images for some, images in zip(chosen, opened, strict=True)]
    if len(opened) == 1:
        subjects = [_explain(one, symbol, is_alone=True) for one in opened[0]]
        first, *others = [one for one in subjects if one.ways][:2] or subjects[:1]
        return [_with_damage(first, files[0]), *others]
    return [
        _with_damage(_explain(image, symbol, is_alone=False), file)
        for image, file in zip(_pair(*opened), files, strict=True)
    ]


def _with_damage(subject: Subject, file: Image) -> Subject:
    """Return what is said of one image of a file, with what is wrong with further ones."""
    damaged = [why.removeprefix(f"{file.path}: ") for why in file.damaged]
    return subject._replace(partial=(*damaged, *subject.partial))


def _pair(first: list[Image], second: list[Image]) -> tuple[Image, Image]:
    """Return the first two images for the same processor, or else the first ones."""
    for one in first:
        for other in second:
            if _processor(one.arch) == _processor(other.arch):
                return one, other
    return first[0], second[0]


def _processor(arch: str) -> str:
    return {"x86_64": "x86-64", "x86_64h": "x86-64", "arm64": "aarch64", "arm64e": "aarch64"}.get(
        arch, arch
    )


def _explain(image: Image, symbol: str, *, is_alone: bool) -> Subject:
    name, slots = _slots(image, symbol, is_alone=is_alone)
    code = code_of(image)
    follower = Follower(code, format=image.format, arch=image.arch)
    selector = name.partition("$")[2]
    ways = follower.ways(
        [(_chosen(one, selector), one.provider, one.provider_reason) for one in slots[:_MOST_WAYS]]
    )
    partial = list(image.partial)
    if not code.is_searched:
        partial.append(_NOT_SEARCHED)
    if len(slots) > _MOST_WAYS:
        partial.append(f"{len(slots) - _MOST_WAYS:,} more slots of {name} are left out")
    near = () if ways else _near(image, symbol)
    return Subject(
        image.path,
        image.format,
        image.arch,
        image.kind,
        code.loader,
        name,
        tuple(ways),
        near,
        tuple(partial),
    )


def _slots(image: Image, symbol: str, *, is_alone: bool) -> tuple[str, tuple[Slot, ...]]:
    names = [symbol]
    if image.format == MACHO:
        names.append(f"_{symbol.partition('@')[0]}")
    elif not is_alone and symbol.startswith("_"):
        names.append(symbol[1:])
    for name in names:
        found = image.slots.named(name)
        if found:
            return name, found
    for name in names:  # what Objective-C's stubs are called: _objc_msgSend$SELECTOR
        function, _, selector = name.partition("$")
        found = image.slots.named(function) if selector else ()
        if any(stub.selector == selector for one in found for stub in one.stubs):
            return name, found
    return symbol, ()


def _chosen(slot: filemap.Slot, selector: str) -> filemap.Slot:
    """Return a slot with the stubs for a selector alone, with all of them if none has it."""
    stubs = tuple(one for one in slot.stubs if selector and one.selector == selector)
    return filemap.Slot._make(slot)._replace(stubs=stubs) if stubs else slot


def _near(image: Image, symbol: str) -> tuple[str, ...]:
    from difflib import get_close_matches

    wanted = symbol.partition("@")[0].lstrip("_")
    found: dict[str, str] = {}
    for one in image.slots[:_MOST_NAMES]:
        name = one.symbol.lstrip("_")
        if abs(len(name) - len(wanted)) <= 3 or (len(wanted) > 2 and wanted in name):
            found.setdefault(name, one.symbol)
    inside = [name for name in found if len(wanted) > 2 and wanted in name]
    close = get_close_matches(wanted, list(found), n=_MOST_NEAR, cutoff=0.6)
    return tuple(found[name] for name in dict.fromkeys([*close, *sorted(inside)]))[:_MOST_NEAR]


def code_of(image: Image) -> FileCode:
    """Return the code of an image."""
    reader = image.map
    if isinstance(reader, ElfMap):
        return ElfCode(reader)
    from soscope.binfmt.macho.filemap import MachoMap
    from soscope.inspect.machocode import MachoCode

    assert isinstance(reader, MachoMap)
    return MachoCode(reader)
