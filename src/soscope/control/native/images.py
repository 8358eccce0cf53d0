# SPDX-License-Identifier: Apache-2.0
"""The images of a running native process: found as they come, with traps at call sites.

A call site is code, which exists before its image is relocated. So new images are hooked as soon
as the loader lists them, before any of their code runs.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import part
from soscope.binfmt.source import BufferSource
from soscope.binfmt.stubs.finder import Through
from soscope.control.breakpoints.hooking import ImageHooks
from soscope.control.breakpoints.images import CalledSlot, LoadedElf
from soscope.control.breakpoints.watch import Armed, CallSpec, CallWatch
from soscope.control.settings import SITES
from soscope.entry.native.traps import NativeMemory, Traps
from soscope.errors import FormatError
from soscope.live.images.linkmaps import Linked
from soscope.model.arch import Arch
from soscope.proc import maps
from soscope.wire import layout

# Call sites of a native process: the places where its code jumps and calls through slots.
#
# Nothing else of the process is changed, neither slots nor relocations. A thread that stops at a
# call site is moved on to the address in the slot, so no instruction has to be stepped over.


class NativeSite:
    """One call site: the code that goes `through` a slot, and the `armed` slot of the call."""

    __slots__ = ("armed", "through")

    def __init__(self, armed: Armed, through: Through) -> None:
        self.armed = armed
        self.through = through


class NativeSites(CallWatch):
    """The call sites of one process."""

    __slots__ = ("_found", "_memory", "_traps")

    name = SITES

    def __init__(self, memory: NativeMemory, traps: Traps) -> None:
        self._memory = memory
        self._traps = traps
        self._found: dict[LoadedElf, dict[int, list[Through]]] = {}

    def copy_for(self, memory: NativeMemory, traps: Traps) -> NativeSites:
        """Return a copy for a forked process, with its memory and its traps."""
        copied = NativeSites(memory, traps)
        copied._found = dict(self._found)
        return copied

    def look(self, image: LoadedElf, arch: Arch, slots: list[CalledSlot]) -> None:
        """Find the call sites of an image's slots, in the memory of the process."""
        coding = self._memory.coding
        addrs = {slot.addr for slot in slots}
        code_of = part(arch, "through")
        uses = part(arch, "uses")
        assert code_of is not None
        got = 0 if uses is None else uses.base_of(arch, image.elf, Sections.read(image.elf))
        base = got + image.linked.load_bias & (1 << coding.bits) - 1 if got else None
        by_slot: dict[int, list[Through]] = {}
        self._found[image] = by_slot
        for segment in image.elf.segments:
            if segment.type != c.PT_LOAD or not segment.flags & c.PF_X:
                continue
            start = segment.vaddr + image.linked.load_bias
            code = self._memory.read(start, segment.filesz)
            for site in code_of.through(code, start, addrs, coding.bits, base):
                by_slot.setdefault(site.slot, []).append(site)

    def has(self, slot: CalledSlot, image: LoadedElf) -> bool:
        """Return whether any code goes through a slot."""
        return slot.addr in self._found.get(image, ())

    def hook(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Put traps at the call sites of a slot."""
        armed = Armed(slot, image, spec)
        told = self._found.get(image, {}).get(slot.addr, [])
        if not told:
            return layout.REFUSED_NO_SITE
        put = [self._traps.put(site.vaddr, NativeSite(armed, site)) for site in told]
        return armed if all(put) else layout.REFUSED_TEXT

    def forget(self, image: LoadedElf) -> None:
        """Drop the call sites of an image that was unloaded."""
        self._found.pop(image, None)


_DELETED = " (deleted)"
_MOST_FILE = 1 << 30
_REPLACED = "its file is not the one that is mapped"


class NativeImage(LoadedElf):
    """One image. `sites` finds the code that goes through its slots."""

    sites: NativeSites

    def slots(self, arch: Arch) -> list[CalledSlot]:
        """Return the slots that lead to functions. Raises FormatError.

        A slot that code calls through counts as a slot for calls, whatever else it is for,
        because the trap is at the call.
        """
        slots = super().slots(arch)
        self.sites.look(self, arch, slots)
        for slot in slots:
            slot.is_call = slot.is_call or self.sites.has(slot, self)
        return slots


def _file_at(pid: int, addr: int) -> str:
    """Return the path of the file that is mapped at an address. Raises OSError."""
    mapped = maps.containing(maps.read(pid), addr)
    return "" if mapped is None else mapped.path


class NativeHooks(ImageHooks):
    """The images of one process. `begin` must be called first."""

    _sites: NativeSites
    _traps: Traps

    def begin(self, sites: NativeSites, traps: Traps) -> None:
        """Put traps into the images that are loaded already."""
        self.use(sites, traps)
        self.look_at_list()

    def _open(self, entry: Linked, *, is_main: bool) -> LoadedElf | None:
        pid = self._memory.pid
        path = self._program if is_main else entry.path
        try:
            # The name of a library may be relative to the program's directory at that time, but
            # the kernel knows the file.
            there = path if path.startswith("/") else _file_at(pid, entry.dynamic)
            if not there.startswith("/"):  # the vDSO
                return None
            path = there
            image = self._read(entry, path, pid, is_main=is_main)
        except (FormatError, OSError) as error:
            why = error.message if isinstance(error, FormatError) else error.strerror
            self._say(f"not hooked: {path}: {why}")
            return None
        self._images[entry.addr] = image
        self._traps.caves.add(image.elf.segments, image.linked.load_bias)
        return image

    def _read(self, entry: Linked, path: str, pid: int, *, is_main: bool) -> NativeImage:
        there = f"/proc/{pid}/exe" if is_main else f"/proc/{pid}/root{path}"
        with open(there, "rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
            if facts.st_size > _MOST_FILE:
                raise FormatError(f"{path}: larger than any image", field="size", offset=0)
            elf = ElfImage.from_source(BufferSource(file.read(), path))
        image = NativeImage(elf, entry, path.removesuffix(_DELETED), is_main=is_main)
        image.sites = self._sites
        first = next((each for each in elf.segments if each.type == c.PT_LOAD), None)
        start = 0 if first is None else first.vaddr + entry.load_bias
        mapped = next((each for each in maps.read(pid) if each.start <= start < each.end), None)
        if mapped is None or mapped.inode != facts.st_ino:
            raise FormatError(f"{path}: {_REPLACED}", field="inode", offset=0)
        return image

    def is_code(self, addr: int) -> bool:
        """Return whether an address is in the read-only code of an image."""
        return any(
            each.type == c.PT_LOAD
            and each.flags & c.PF_X
            and not each.flags & c.PF_W
            and 0 <= addr - each.vaddr - image.linked.load_bias < each.memsz
            for image in self._images.values()
            for each in image.elf.segments
        )

    def _guard(self, image: LoadedElf) -> None:
        """Do nothing: the kernel reports new threads and processes."""

    def _wait_for(self, image: LoadedElf) -> None:
        self.hook(image, flags=0)

    def use(self, sites: NativeSites, traps: Traps) -> None:
        """Use these sites and traps of the same process."""
        self._sites = sites
        self._traps = traps

    def _forget(self, addr: int, image: LoadedElf) -> None:
        self._traps.forget(image.start, image.end + 4095 & -4096)
        super()._forget(addr, image)
