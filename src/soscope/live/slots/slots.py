# SPDX-License-Identifier: Apache-2.0
"""The slots of a loaded image: the words of its relocations, with their current contents."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# kinds of relocations
JUMP, DATA, WORD, IRELATIVE, DTPMOD, COPY = range(6)
_MAX_BYTES = 1 << 28


class RelocatedWord(Record):
    """One relocated word: its run-time `addr`, its symbol's index (0 if none), its kind.

    `addend` is None if the word itself holds it (DT_REL).
    """

    addr: int
    symbol: int
    kind: int
    addend: int | None


def slots_of(image: LoadedImage) -> Iterator[RelocatedWord]:
    """Yield the slots of an image, with the slots of stubs first. Raises FormatError."""
    reader = image.reader
    get, place = reader.dynamic.get, reader.locate_pointer
    kinds = _kinds(image)
    jump = place(c.DT_JMPREL), get(c.DT_PLTRELSZ) or 0
    tables = [(*jump, get(c.DT_PLTREL) == c.DT_RELA)]
    tables.append((place(c.DT_RELA), get(c.DT_RELASZ) or 0, True))
    tables.append((place(c.DT_REL), get(c.DT_RELSZ) or 0, False))
    bias = image.load_bias
    shift, mask = (32, 0xFFFF_FFFF) if image.space.bits == 64 else (8, 0xFF)
    for addr, size, is_rela in tables:
        if not addr or not 0 < size <= _MAX_BYTES:
            continue
        layout = reader.encoding.rela if is_rela else reader.encoding.rel
        data = image.space.read(addr, size // layout.size * layout.size)
        for fields in layout.iter_unpack(data[: len(data) // layout.size * layout.size]):
            kind = kinds.get(fields[1] & mask)
            if kind is not None:
                addend = fields[2] if is_rela else None
                yield RelocatedWord(fields[0] + bias, fields[1] >> shift, kind, addend)


def slots_named(image: LoadedImage, name: bytes) -> list[tuple[RelocatedWord, str | None]]:
    """Return the slots of an image for a symbol called `name`, each with the version it asks for.

    Raises FormatError.
    """
    symbols = image.symbols
    named: list[tuple[RelocatedWord, str | None]] = []
    is_named: dict[int, bool] = {0: False}
    indices = set(symbols.indices_named(name))
    for slot in slots_of(image):
        if slot.symbol not in is_named:
            is_named[slot.symbol] = slot.symbol in indices
        if is_named[slot.symbol]:
            entry = symbols.entry(slot.symbol)
            named.append((slot, symbols.version_of(entry)))
    return named


def _kinds(image: LoadedImage) -> dict[int, int]:
    """Return relocation type -> kind for the image's machine; empty if that is unknown."""
    arch = image.arch
    if arch is None or not arch.relocations.types:
        return {}
    types = arch.relocations
    kinds = {types.jump_slot: JUMP, types.word: WORD, types.dtpmod: DTPMOD, types.copy: COPY}
    kinds.update(dict.fromkeys(types.irelative, IRELATIVE))
    if types.glob_dat:
        kinds[types.glob_dat] = DATA
    return kinds


def is_unbound(image: LoadedImage, value: int, own: list[int]) -> bool:
    """Return whether a slot of `image` that holds `value` still leads to its resolver.

    `own` are the addresses of the image's own definitions of that name.
    """
    if value in own:
        return False
    return not value or value < 4096 or image.executes(value) or _is_link_time(image, value)


def _is_link_time(image: LoadedImage, value: int) -> bool:
    """Return whether a value is an address that has not been relocated yet."""
    return image.load_bias > 1 << 20 and image.executes(value + image.load_bias)


def readable_slots(image: LoadedImage, name: bytes) -> list[tuple[RelocatedWord, str | None]]:
    """Return `slots_named`, or [] if the image's tables cannot be read."""
    try:
        return slots_named(image, name)
    except FormatError:
        return []
