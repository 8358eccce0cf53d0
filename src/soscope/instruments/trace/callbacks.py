# SPDX-License-Identifier: Apache-2.0
"""What functions are called whose addresses are passed: the images' symbols at these addresses."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.frames.names import FrameNames
    from soscope.recording.names import Programs

_POINTS = "(*"  # in the type of a pointer to a function
_TYPES = frozenset({"sighandler_t", "__sighandler_t"})
_MOST_KEPT = 1 << 16


def is_callback(of: str) -> bool:
    """Return whether a C type is that of a pointer to a function."""
    return _POINTS in of or of in _TYPES


class Callbacks:
    """Names functions by their addresses; `programs` has the images of each program."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._names: FrameNames | None = None
        self._known: dict[tuple[int, int, int], str | None] = {}

    def name(self, process: int, pid: int, addr: int) -> str | None:
        """Return `image!symbol`, None where no function is known to begin at `addr`."""
        key = process, pid, addr
        if key not in self._known:
            if len(self._known) > _MOST_KEPT:
                self._known.clear()
            self._known[key] = self._look(*key)
        return self._known[key]

    def _look(self, process: int, pid: int, addr: int) -> str | None:
        if self._names is None:
            from soscope.frames.names import FrameNames  # reads files: few traces need it

            self._names = FrameNames()
        # they are names of return addresses: of what stands before them
        (frame,) = self._names.stack(self._programs[process], pid, (addr + 1,))
        if frame.image is None or frame.symbol is None or frame.offset != 1:
            return None
        return f"{frame.image}!{frame.symbol}"
