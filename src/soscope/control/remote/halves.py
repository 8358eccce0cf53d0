# SPDX-License-Identifier: Apache-2.0
"""The upper halves of floating-point registers, if a stub reports only the lower halves.

An emulator keeps the registers of each thread in its own memory, with the floating-point
registers behind the integer registers. The values that the stub reports for both are searched
there, and compared again each time. If they are found nowhere or in two places, an upper half is
not known.
"""

from __future__ import annotations

from soscope.proc import maps
from soscope.proc.memory import ProcessMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.convention import Convention
    from soscope.entry.remote.stub import RemoteStub

_HALF = 4  # bytes
_STEPS = (16, 8)  # bytes between numbers; larger steps are parts of vectors
_FAR = 2048  # most bytes from the integers to the numbers
_BEHIND = 64  # most bytes from the numbers to the FPU's identity register
_MOST = 1 << 28  # bytes of one mapping
_MARK = 0x50C0_9E00  # plus the register's number: values unlikely to be in memory
_OWN = ("", "[heap]")  # paths of mappings with the emulator's own data


class _Told:
    """Registers that the stub reports for a stopped thread, as bytes in the emulator's memory."""

    __slots__ = ("_lower", "_unit", "words")

    def __init__(self, stub: RemoteStub, convention: Convention) -> None:
        words, numbers, unit = convention.kept

        def data_of(name: str) -> bytes:
            return stub.get(name).to_bytes(_HALF, "little")

        self.words = b"".join(data_of(name) for name in words)
        self._lower = b"".join(data_of(name) for name in numbers)
        self._unit = data_of(unit)

    def numbers(self, data: bytes, distance: int, step: int) -> bytes:
        """Return the registers at `distance` in `data`, b"" if they are not those of the stub.

        `data` begins at the integer registers.
        """
        count = len(self._lower) // _HALF
        end = distance + count * step
        numbers = data[distance:end]
        if len(numbers) < count * step or self._unit not in data[end : end + _BEHIND]:
            return b""
        lower = b"".join(numbers[at : at + _HALF] for at in range(0, len(numbers), step))
        return numbers if lower == self._lower else b""


class UpperHalves:
    """The upper halves of one program's threads, in the memory of its emulator."""

    __slots__ = ("_addrs", "_convention", "_layout", "_memory", "_pid", "_stub")

    def __init__(self, pid: int, stub: RemoteStub, convention: Convention) -> None:
        """Find out how process `pid` keeps the registers, before the program's first instruction.

        The program has used no floating-point register then, so that marks may be put into them
        for a moment. Raises OSError if its memory cannot be read, and RemoteError.
        """
        self._pid = pid
        self._stub = stub
        self._convention = convention
        self._memory = ProcessMemory(pid)
        self._addrs: dict[str, int] = {}  # of the integer registers, by thread
        self._layout = 0, 0  # distance from integers to numbers, step between numbers
        numbers = convention.kept[1]
        if any(stub.get(name) for name in numbers):
            return
        stub.set_now({name: _MARK + number for number, name in enumerate(numbers)})
        told = _Told(stub, convention)
        layouts = {
            (distance, step)
            for _, near in self._places(told)
            for step in _STEPS
            for distance in range(len(told.words), _FAR, 8)
            if told.numbers(near, distance, step)
        }
        stub.set_now(dict.fromkeys(numbers, 0))
        if len(layouts) == 1:
            self._layout = layouts.pop()

    def read(self, name: str) -> bytes:
        """Return the upper half of a register in little-endian order, b"" if it is not known."""
        distance, step = self._layout
        if not step:
            return b""
        told = _Told(self._stub, self._convention)
        thread = self._stub.thread
        addr = self._addrs.get(thread, 0)
        data = self._memory.read(addr, _FAR * 2) if addr else b""
        if not data.startswith(told.words):
            places = self._places(told)
            # A packet of the stub with the same values may still be in memory.
            fitting = [each for each in places if told.numbers(each[1], distance, step)]
            if len(fitting) != 1:
                return b""
            self._addrs[thread], data = fitting[0]
        numbers = told.numbers(data, distance, step)
        at = self._convention.kept[1].index(name) * step + _HALF
        return numbers[at : at + _HALF]

    def _places(self, told: _Told) -> list[tuple[int, bytes]]:
        """Return where the thread's integer registers are found in memory, with the data there."""
        places = []
        try:
            mapped = maps.read(self._pid)
        except OSError:
            return []  # the process has ended
        for each in mapped:
            if not each.flags.startswith("rw") or each.path not in _OWN:
                continue
            if each.end - each.start > _MOST:
                continue
            data = self._memory.read(each.start, each.end - each.start)
            at = data.find(told.words)
            while at >= 0:
                places.append((each.start + at, data[at : at + _FAR * 2]))
                at = data.find(told.words, at + 1)
        return places
