# SPDX-License-Identifier: Apache-2.0
"""Names of functions whose addresses are passed: the symbols at these addresses."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.frames.names import FrameNames
    from soscope.model.call import Entry
    from soscope.recording.names import Programs, RecordedProgram

_POINTS = "(*"  # part of the type of a pointer to a function
_TYPES = frozenset({"sighandler_t", "__sighandler_t"})
_MOST_KEPT = 1 << 16


def is_callback(of: str) -> bool:
    """Return whether a C type is a pointer to a function."""
    return _POINTS in of or of in _TYPES


class Callbacks:
    """Names functions by address. `programs` has the images of each program."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._names: FrameNames | None = None
        self._known: dict[tuple[int, int], str | None] = {}

    def name(self, entry: Entry, addr: int) -> str | None:
        """Return `image!symbol`, None if no known function begins at `addr`.

        The address was passed to the call of `entry`. The images at that time count.
        """
        process = entry.slot.process
        program = self._programs[process]
        # Names are looked up for return addresses, which lie behind what they name.
        word = program.word(addr + 1, entry.pid, entry.time_ns, self._programs.clock.time_ns)
        key = process, word
        if key not in self._known:
            if len(self._known) > _MOST_KEPT:
                self._known.clear()
            self._known[key] = self._look(program, word)
        return self._known[key]

    def _look(self, program: RecordedProgram, word: int) -> str | None:
        if self._names is None:
            from soscope.frames.names import FrameNames  # Reads files, and few traces need it.

            self._names = FrameNames()
        (frame,) = self._names.stack(program, (word,))
        if frame.image is None or frame.symbol is None or frame.offset != 1:
            return None
        return f"{frame.image}!{frame.symbol}"
