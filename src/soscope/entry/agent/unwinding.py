# SPDX-License-Identifier: Apache-2.0
"""Detect threads that are unwinding their stack, so that return addresses must not change.

An unwinder that has come to a return trampoline has found its unwind rule, and then reads the
return address from the stack again (libgcc: uw_frame_state_for, then uw_update_context). It must
be the same. An exception that is under way while a destructor runs does not matter: the unwinder
begins again, and personality routines look for the handler again.

The unwinders are the images for which the agent answers questions about its trampolines. A thread
may be in one if its stack has a word that leads there. Remains of earlier unwinding look the
same. But an unwinder never waits, so a thread that stays at one place for long is not in one.
"""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf.image import ElfImage
from soscope.entry.isa import arch
from soscope.entry.memory import RemoteMemory
from soscope.errors import FormatError
from soscope.proc import maps
from soscope.proc.maps import Mapping

_RAISE = "_Unwind_RaiseException"
_PREFIX = "_Unwind_"
_SMALL = 1 << 20  # bytes of code of a library that is only an unwinder
_LONG = 30  # stops at which a thread is at the same place


Range = tuple[int, int]


def words_between(data: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, value) of the aligned 8-byte words in [low, high).

    All of them have nearly the same upper five bytes, so memory is searched for these bytes.
    """
    for upper in range(low >> 24, (high - 1 >> 24) + 1):
        pattern = upper.to_bytes(5, "little")
        at = data.find(pattern, 3)
        while at >= 0:
            if at % 8 == 3:
                word = int.from_bytes(data[at - 3 : at + 5], "little")
                if low <= word < high:
                    yield at - 3, word
            at = data.find(pattern, at + 1)


class Unwinders:
    """The code of the unwinders in a process, and the threads that may be in it."""

    __slots__ = ("_seen", "ranges")

    def __init__(self, memory: RemoteMemory, mappings: list[Mapping], asking: list[int]) -> None:
        """Find the unwinders of the images that have slots at the addresses `asking`."""
        self.ranges: list[Range] = []
        self._seen: dict[int, tuple[int, int, int]] = {}  # tid -> (sp, pc, how often)
        around = {maps.containing(mappings, addr) for addr in asking}
        for path in {mapping.path for mapping in around if mapping is not None}:
            own = [mapping for mapping in mappings if mapping.path == path]
            self.ranges += _ranges(memory, own)

    def hold(self, tid: int, registers: arch.Registers, stack: bytes) -> bool:
        """Return whether a thread with this stack may be in an unwinder."""
        if not any(
            start <= registers.pc < end or next(words_between(stack, start, end), None)
            for start, end in self.ranges
        ):
            return False
        place = registers.sp, registers.pc
        sp, pc, count = self._seen.get(tid, (*place, 0))
        count = count + 1 if (sp, pc) == place else 0
        self._seen[tid] = (*place, count)
        return count < _LONG


def _ranges(memory: RemoteMemory, mappings: list[Mapping]) -> list[Range]:
    """Return the code ranges of one image's unwinder, all its code if they are not known."""
    code = [(mapping.start, mapping.end) for mapping in mappings if mapping.flags[2] == "x"]
    try:
        image = ElfImage.from_memory(memory, mappings[0].start)
        is_known = image.symbol(_RAISE) is not None
        if not is_known and any(
            function.name.startswith(_PREFIX) for function in image.undefined_functions()
        ):
            return []  # the image uses another image's unwinder
        if not is_known or sum(end - start for start, end in code) <= _SMALL:
            return code
        functions = [
            symbol
            for symbol in image.symbols
            if symbol.name.startswith(_PREFIX) and symbol.is_defined
        ]
        addrs = [(image.locate(function.value), function.size) for function in functions]
    except FormatError:
        return code
    return [(min(addr for addr, _ in addrs), max(addr + size for addr, size in addrs))]
