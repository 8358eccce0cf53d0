# SPDX-License-Identifier: Apache-2.0
"""Find out whether a process's loader is idle, by its locks, which are found by their form.

glibc has them side by side in `_rtld_global`, an exported variable whose members are private and
move between versions: `_dl_load_lock` (held during dlopen and dlclose, with the constructors),
`_dl_load_write_lock` (while its list changes), and since 2.35 `_dl_load_tls_lock`. All are
recursive mutexes of 40 bytes, and the number of namespaces is in front of the first.
`r_debug.r_state` is not sufficient: before glibc 2.41 it is consistent in the middle of
relocation.

Values that are read from a running process may have changed already.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.entry import linkmap
from soscope.entry.memory import RemoteMemory

_MUTEX = 40
_RECURSIVE = 1  # PTHREAD_MUTEX_RECURSIVE_NP
_MOST_NAMESPACES = 16
_MOST_COUNT, _MOST_USERS = 1000, 100_000
_GLOBAL_SIZE = 1 << 14  # more than `_rtld_global` ever was
_OWNER = 8


class LoaderLock:
    """The words that tell whether the loader of a process is at work."""

    __slots__ = ("_memory", "_mutexes", "_r_debug", "_rwlock")

    def __init__(
        self, memory: RemoteMemory, r_debug: int, mutexes: tuple[int, ...], rwlock: int
    ) -> None:
        self._memory = memory
        self._r_debug = r_debug
        self._mutexes = mutexes
        self._rwlock = rwlock

    @classmethod
    def find(cls, memory: RemoteMemory, loader: ElfImage, r_debug: int) -> LoaderLock | None:
        """Find the locks of `loader`. Return None if it is of an unknown kind."""
        symbol = loader.symbol("_rtld_global")
        if symbol is not None:
            start = loader.locate(symbol.value)
            at = _first_mutex(memory.read(start, min(symbol.size, _GLOBAL_SIZE)))
            if at is None:
                return None
            return cls(memory, r_debug, (start + at, start + at + _MUTEX), 0)
        rwlock = _musl_lock(memory, loader)
        return cls(memory, r_debug, (), rwlock) if rwlock else None

    @property
    def is_ready(self) -> bool:
        """Return whether the program's initial images have all been loaded."""
        debug = linkmap.read_debug(self._memory, self._r_debug)
        return bool(debug and debug.first and debug.brk) and (
            debug is not None and debug.state == linkmap.RT_CONSISTENT
        )

    @property
    def is_held(self) -> bool:
        """Return whether a thread loads or unloads. It is exact while all threads are stopped."""
        if self._rwlock:
            return self._memory.read(self._rwlock, 4) != bytes(4)
        # Without libpthread, glibc 2.31 only counts and does not lock.
        return any(self._memory.read(at, 8) != bytes(8) for at in self._mutexes)

    @property
    def activity(self) -> tuple[object, ...]:
        """A value that changes from time to time while the loader is at work."""
        debug = linkmap.read_debug(self._memory, self._r_debug)
        return (debug.state if debug else 0, *self.owners)

    @property
    def owner(self) -> int:
        """The thread that holds a lock, by its id in its own pid namespace, 0 if none is known."""
        return next(iter(self.owners), 0)

    @property
    def owners(self) -> list[int]:
        """All threads that hold a lock, by ids in their own pid namespace, 0 if unknown."""
        if self._rwlock:
            return [0] if self.is_held else []
        words = (self._memory.read(at, 12) for at in self._mutexes)
        return [int.from_bytes(data[_OWNER:], "little") for data in words if data[:8] != bytes(8)]

    def held_by(self, tid: int) -> list[tuple[int, int]]:
        """Return the mutexes that a thread (id in its own namespace) holds: (address, count)."""
        held = []
        for at in self._mutexes:
            data = self._memory.read(at, 12)
            if data[:4] != bytes(4) and int.from_bytes(data[_OWNER:], "little") == tid:
                held.append((at, int.from_bytes(data[4:8], "little")))
        return held


def _is_mutex(data: bytes, at: int) -> bool:
    if at < 0 or at + _MUTEX > len(data):
        return False
    words = [int.from_bytes(data[at + 4 * word : at + 4 * word + 4], "little") for word in range(5)]
    return (
        words[4] == _RECURSIVE
        and words[0] <= 2
        and words[1] < _MOST_COUNT
        and words[3] < _MOST_USERS
        and data[at + 20 : at + _MUTEX] == bytes(_MUTEX - 20)
    )


def _first_mutex(data: bytes) -> int | None:
    """Return the offset of `_dl_load_lock` in `_rtld_global`, None if it is not found."""
    for at in range(8, len(data) - 2 * _MUTEX + 1, 8):
        if data[at + 16] != _RECURSIVE or not _is_mutex(data, at):
            continue
        spaces = int.from_bytes(data[at - 8 : at], "little")
        if 1 <= spaces <= _MOST_NAMESPACES and _is_mutex(data, at + _MUTEX):
            return at
    return None


def _musl_lock(memory: RemoteMemory, loader: ElfImage) -> int:
    """Return the address of musl's lock, which dl_iterate_phdr's code loads, 0 if not found."""
    function = loader.symbol("dl_iterate_phdr")
    if function is None or loader.symbol("__libc_start_main") is None:
        return 0
    at = loader.locate(function.value)
    code = memory.read(at, 256)
    for place in range(len(code) - 7):
        if code[place : place + 3] in (b"\x48\x8d\x3d", b"\x48\x8d\x2d"):  # lea X(%rip),%rdi|%rbp
            distance = int.from_bytes(code[place + 3 : place + 7], "little", signed=True)
            return at + place + 7 + distance
    return 0


def executable_ranges(loader: ElfImage) -> list[tuple[int, int]]:
    """Return the address ranges of an image's code."""
    return [
        (loader.locate(segment.vaddr), loader.locate(segment.vaddr) + segment.memsz)
        for segment in loader.segments
        if segment.type == elf.PT_LOAD and segment.flags & elf.PF_X
    ]
