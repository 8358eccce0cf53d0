# SPDX-License-Identifier: Apache-2.0
"""Demangle C++ names that may have very long texts, in a separate process.

A mangled name refers back to its parts (Itanium C++ ABI, "Compression"), and a part may consist
of references to earlier ones: 230 characters can stand for gigabytes. No demangler has a limit.
So a separate process with limits for memory and processor time demangles such names. It is not a
child of soscope, because soscope waits for all of its children. It ends when soscope does.
"""

from __future__ import annotations

import os
import re
import resource
import select
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_TEXT = 8192  # bytes of the longest demangled name
_MOST = 4096  # parts of a name that is safe to demangle
_REFERENCE = re.compile(rb"[ST][0-9A-Z]*_")
_LONGEST = 1 << 15  # bytes of a name that fits into a pipe
_SIZE = struct.Struct("<I")
_NONE = 0xFFFF_FFFF
_PATIENCE = 0.5  # seconds
_ROOM, _SECONDS = 256 << 20, 2  # limits of the process: bytes, and seconds of processor time
_MOST_LOST = 4  # processes that may fail before no more are started


def may_be_long(mangled: bytes) -> bool:
    """Return whether a name may stand for more than a few thousand parts.

    >>> from soscope.live.names.demangledapart import may_be_long
    >>> may_be_long(b"_ZN3foo3barEii"), may_be_long(b"_Z1f1AIiiE" + 20 * b"S_IS0_S0_E")
    (False, True)
    """
    parts, end = 0, 0
    for reference in _REFERENCE.finditer(mangled):
        parts += reference.start() - end
        parts *= 2  # at most it refers to everything before it
        end = reference.end()
        if parts > _MOST:
            return True
    return parts + len(mangled) - end > _MOST


class DemangledApart:
    """A process that calls `demangle` for names that may be long."""

    def __init__(self, demangle: Callable[[bytes], bytes | None]) -> None:
        self._demangle = demangle
        self._pipes: tuple[int, int] | None = None  # pipe to the process, pipe from it
        self._owner = 0
        self._lost = 0

    def __call__(self, mangled: bytes) -> bytes | None:
        """Return a demangled name; None if it is not mangled, or takes too much time or memory."""
        if self._owner != os.getpid():  # a forked child starts a process of its own
            self._pipes = None
        if len(mangled) > _LONGEST:
            return None
        if self._pipes is None and self._lost < _MOST_LOST:
            self._begin()
        if self._pipes is None:
            return None
        to, back = self._pipes
        try:
            os.write(to, _SIZE.pack(len(mangled)) + mangled)
            (size,) = _SIZE.unpack(_read(back, _SIZE.size, _PATIENCE))
            return None if size == _NONE else _read(back, size, _PATIENCE)
        except (OSError, TimeoutError):
            self._lose()
            return None

    def close(self) -> None:
        """Close the pipes, so that the process ends."""
        if self._pipes is not None and self._owner == os.getpid():
            self._lose()

    __del__ = close

    def _lose(self) -> None:
        """Abandon the process, which its limits will end soon."""
        assert self._pipes is not None
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = None
        self._lost += 1

    def _begin(self) -> None:
        asked, to = os.pipe2(os.O_CLOEXEC)
        back, answer = os.pipe2(os.O_CLOEXEC)
        try:
            child = os.fork()
        except OSError:
            child = -1
            self._lost = _MOST_LOST
        if not child:
            try:
                if not os.fork():
                    self._serve(asked, answer)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answer)
        self._owner, self._pipes = os.getpid(), (to, back)
        if child < 0:
            self._lose()
            return
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass  # another part of soscope has waited for it

    def _serve(self, asked: int, answer: int) -> None:
        os.setsid()  # signals of a terminal are for soscope
        os.dup2(asked, 0)
        os.dup2(answer, 1)
        os.closerange(2, 1 << 20)
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, used + _ROOM))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        while True:
            # each name has its own limit of time
            spent = int(sum(os.times()[:2]))
            resource.setrlimit(resource.RLIMIT_CPU, (spent + _SECONDS, resource.RLIM_INFINITY))
            (size,) = _SIZE.unpack(_read(0, _SIZE.size, None))
            text = self._demangle(_read(0, size, None))
            if text is None:
                os.write(1, _SIZE.pack(_NONE))
            else:
                os.write(1, _SIZE.pack(len(text)) + text)


def _read(descriptor: int, size: int, patience: float | None) -> bytes:
    """Read `size` bytes. Raises TimeoutError, EOFError, OSError."""
    data = b""
    while len(data) < size:
        if not select.select([descriptor], [], [], patience)[0]:
            raise TimeoutError
        piece = os.read(descriptor, size - len(data))
        if not piece:
            raise BrokenPipeError
        data += piece
    return data
