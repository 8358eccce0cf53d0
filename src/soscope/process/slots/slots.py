# SPDX-License-Identifier: Apache-2.0
"""The slots of a loaded image: the words that its relocations name, as they are now."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.errors import FormatError
from soscope.process.images.loadedimage import LoadedImage

# e_machine -> relocation type -> what it makes
JUMP, DATA, WORD, IRELATIVE, DTPMOD, COPY = range(6)
_X86_64 = {7: JUMP, 6: DATA, 1: WORD, 37: IRELATIVE, 16: DTPMOD, 5: COPY}
_I386 = {7: JUMP, 6: DATA, 1: WORD, 42: IRELATIVE, 35: DTPMOD, 5: COPY}
_AARCH64 = {1026: JUMP, 1025: DATA, 257: WORD, 1032: IRELATIVE, 1028: DTPMOD, 1024: COPY}
_MAX_BYTES = 1 << 28


class Slot:
    """One relocated word: its run-time `addr`, the index of its symbol (0: none), its kind.

    `addend` is None where it is stored in the word itself (DT_REL).
    """

    __slots__ = ("addend", "addr", "kind", "symbol")

    def __init__(self, addr: int, symbol: int, kind: int, addend: int | None) -> None:
        self.addr = addr
        self.symbol = symbol
        self.kind = kind
        self.addend = addend


def slots_of(image: LoadedImage) -> Iterator[Slot]:
    """Give the slots of an image, those of its stubs first. Raises FormatError."""
    symbols = image.symbols
    get = symbols.dynamic.get
    kinds = _kinds(image)
    jump = symbols.pointer(c.DT_JMPREL), get(c.DT_PLTRELSZ) or 0
    tables = [(*jump, get(c.DT_PLTREL) == c.DT_RELA)]
    tables.append((symbols.pointer(c.DT_RELA), get(c.DT_RELASZ) or 0, True))
    tables.append((symbols.pointer(c.DT_REL), get(c.DT_RELSZ) or 0, False))
    bias = image.load_bias
    shift, mask = (32, 0xFFFF_FFFF) if image.space.bits == 64 else (8, 0xFF)
    for addr, size, is_rela in tables:
        if not addr or not 0 < size <= _MAX_BYTES:
            continue
        layout = symbols.encoding.rela if is_rela else symbols.encoding.rel
        data = image.space.read(addr, size // layout.size * layout.size)
        for fields in layout.iter_unpack(data[: len(data) // layout.size * layout.size]):
            kind = kinds.get(fields[1] & mask)
            if kind is not None:
                addend = fields[2] if is_rela else None
                yield Slot(fields[0] + bias, fields[1] >> shift, kind, addend)


def slots_named(image: LoadedImage, name: bytes) -> list[tuple[Slot, str | None]]:
    """Return the slots of an image for a symbol called `name`, with the version it wants.

    Raises FormatError.
    """
    symbols = image.symbols
    found: list[tuple[Slot, str | None]] = []
    is_named: dict[int, bool] = {0: False}
    indices = symbols.indices_named(name)
    for slot in slots_of(image):
        if slot.symbol not in is_named:
            is_named[slot.symbol] = slot.symbol in indices
        if is_named[slot.symbol]:
            entry = symbols.entry(slot.symbol)
            found.append((slot, symbols.version_of(entry)))
    return found


def _kinds(image: LoadedImage) -> dict[int, int]:
    if image.space.bits == 32:
        return _I386
    return _AARCH64 if image.machine == c.EM_AARCH64 else _X86_64


def is_unbound(image: LoadedImage, value: int, own: list[int]) -> bool:
    """Say whether a slot of `image` that holds `value` still leads to its resolver.

    `own` are the addresses of the image's own definitions of that name.
    """
    if value in own:
        return False
    return not value or value < 4096 or image.executes(value) or _is_link_time(image, value)


def _is_link_time(image: LoadedImage, value: int) -> bool:
    """Say whether a value is an address that has not been relocated yet."""
    return image.load_bias > 1 << 20 and image.executes(value + image.load_bias)


def readable_slots(image: LoadedImage, name: bytes) -> list[tuple[Slot, str | None]]:
    """Return `slots_named`, nothing where the image's tables cannot be read."""
    try:
        return slots_named(image, name)
    except FormatError:
        return []
