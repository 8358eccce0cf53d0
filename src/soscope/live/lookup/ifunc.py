# SPDX-License-Identifier: Apache-2.0
"""Find the function that an IFUNC was resolved to, without running its resolver."""

from __future__ import annotations

import os

from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.symboltable import SymbolEntry
from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.images.space import Space
from soscope.live.slots import slots

# The loader has run the resolver for relocations. Sources of the result are (a) an IRELATIVE slot
# of its own image whose addend is the resolver, and (b) a slot of any image for the same name and
# version. (c) The same library in soscope's own process gives the same result, if build-id and
# processor are the same and there are no tunables.

_TUNABLES = b"GLIBC_TUNABLES="
_OURS = ("libc.so.6", "libm.so.6")


class IfuncTarget:
    """The function of an IFUNC, and how it was found; `others` if slots do not agree."""

    __slots__ = ("addr", "others", "why")

    def __init__(self, addr: int | None, why: str, others: list[int] | None = None) -> None:
        self.addr = addr
        self.why = why
        self.others = others or []


def target(images: Images, image: LoadedImage, name: str, entry: SymbolEntry) -> IfuncTarget:
    """Return the function to which the IFUNC `entry` of `image` resolves."""
    resolver = entry.value + image.load_bias
    version = image.symbols.version_of(entry)
    seen: dict[int, str] = {}
    for value, why in _irelative(image, entry.value):
        seen.setdefault(value, why)
    if not seen:
        for value, why in _named(images, image, os.fsencode(name), version):
            if value != resolver:
                seen.setdefault(value, why)
    if not seen:
        value_here = _in_our_process(images, image, name, version)
        if value_here is not None:
            return IfuncTarget(value_here, "what this build's resolver chose in our own process")
        return IfuncTarget(None, f"an IFUNC (resolver {resolver:#x}) that nothing is bound to")
    if len(seen) > 1:
        return IfuncTarget(None, "an IFUNC whose slots do not agree", sorted(seen))
    ((value, why),) = seen.items()
    return IfuncTarget(value, why)


def _irelative(image: LoadedImage, resolver: int) -> list[tuple[int, str]]:
    """Return the contents of IRELATIVE slots with this resolver, each with its description."""
    held = []
    try:
        for slot in slots.slots_of(image):
            if slot.kind == slots.IRELATIVE and slot.addend == resolver:
                value = image.space.word(slot.addr)
                if value and value not in (resolver, resolver + image.load_bias):
                    held.append((value, f"IRELATIVE slot {slot.addr:#x} of {image.name}"))
    except FormatError:
        pass  # damaged tables: there is less evidence
    return [pair for pair in held if image.executes(pair[0])]


def _named(
    images: Images, image: LoadedImage, name: bytes, version: str | None
) -> list[tuple[int, str]]:
    """Return the contents of slots for this name and version, if they can be from `image`."""
    held = []
    vdso = next((candidate for candidate in images.linked if candidate.is_vdso), None)
    for user in images.linked:
        if user.namespace != image.namespace:
            continue
        for slot, wanted in slots.readable_slots(user, name):
            if slot.kind not in (slots.JUMP, slots.DATA, slots.WORD) or wanted != version:
                continue
            value = image.space.word(slot.addr) or 0
            if slot.addend and slot.kind == slots.WORD:
                continue
            if user is image and slot.kind == slots.JUMP and _is_own_stub(image, slot, value):
                continue
            if image.executes(value) or (vdso is not None and vdso.contains(value)):
                held.append((value, f"slot {slot.addr:#x} of {user.name}"))
    return held


def _is_own_stub(image: LoadedImage, slot: slots.RelocatedWord, value: int) -> bool:
    """Return whether an image's own slot still leads to its stub, as it was never called.

    The stub of an unbound slot pushes the number of its relocation (68 imm32, perhaps behind
    endbr64). The function that a resolver returns does not begin so.
    """
    code = image.space.read(value, 16).removeprefix(b"\xf3\x0f\x1e\xfa")
    return code[:1] == b"\x68" and slot.kind == slots.JUMP


def _in_our_process(
    images: Images, image: LoadedImage, name: str, version: str | None
) -> int | None:
    """Return the address of the function in the same build of a library in our own process."""
    if not image.is_called(_OURS[0]) and not image.is_called(_OURS[1]):
        return None
    if not image.space.is_here or image.space.bits != 64 or _has_tunables(image.space):
        return None
    own = Space(os.getpid())
    try:
        return _ask_here(images, image, own, name, version)
    except (FormatError, OSError):
        return None
    finally:
        own.close()


def _ask_here(
    images: Images, image: LoadedImage, own: Space, name: str, version: str | None
) -> int | None:
    import ctypes

    from soscope.live.images.images import find_images

    ours = find_images(own)
    twin = next((candidate for candidate in ours.linked if candidate.name == image.name), None)
    if twin is None or not twin.build_id or twin.build_id != image.build_id:
        return None
    libc = ctypes.CDLL(None)
    ask = libc.dlvsym if version else libc.dlsym
    ask.restype = ctypes.c_void_p
    words = (os.fsencode(name), os.fsencode(version)) if version else (os.fsencode(name),)
    handle = ctypes.c_void_p(ctypes.CDLL(twin.loader_name or None)._handle)
    here = ask(handle, *(ctypes.c_char_p(word) for word in words))
    if not here:
        return None
    if twin.contains(here):
        return int(here) - twin.load_bias + image.load_bias
    vdso = next((candidate for candidate in images.all if candidate.is_vdso), None)
    own_vdso = next((candidate for candidate in ours.all if candidate.is_vdso), None)
    if vdso is not None and own_vdso is not None and own_vdso.contains(here):
        return int(here) - own_vdso.load_bias + vdso.load_bias
    return None


def _has_tunables(space: Space) -> bool:
    """Return whether GLIBC_TUNABLES is set for either process, or cannot be read."""
    try:
        theirs = space.told("environ").split(b"\0")
    except OSError:
        return True
    return any(entry.startswith(_TUNABLES) for entry in theirs) or "GLIBC_TUNABLES" in os.environ


# Find the function to which an IFUNC that is only in .symtab was resolved.
#
# A static program has no dynamic section, and a local IFUNC has no name in one. But the relocation
# for it is in a section of the file all the same (R_X86_64_IRELATIVE: its addend is the resolver,
# its slot holds the resolver's result). The resolver is not run.

_SHT_RELA = 4
_MAX_BYTES = 1 << 28


def targets(image: LoadedImage, resolver: int) -> list[int]:
    """Return the contents of slots for the IFUNC whose resolver is at vaddr `resolver`."""
    file = image.file
    irelative = frozenset() if image.arch is None else image.arch.relocations.irelative
    if file is None or file.elf.encoding.bits != 64:
        return []
    values: dict[int, None] = {}
    try:
        sections = Sections.read(file.elf)
        for section in sections.all:
            if section.type != _SHT_RELA:
                continue
            data = sections.data(section, _MAX_BYTES)
            layout = file.elf.encoding.rela
            for slot, info, addend in layout.iter_unpack(data[: len(data) // 24 * 24]):
                if info & 0xFFFF_FFFF in irelative and addend == resolver:
                    value = image.space.word(slot + image.load_bias)
                    if value and value != resolver + image.load_bias and image.executes(value):
                        values[value] = None
    except FormatError:
        return []
    return list(values)
