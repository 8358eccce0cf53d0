# SPDX-License-Identifier: Apache-2.0
"""A recording in Python: `soscope.open`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from soscope.errors import RecordingError
from soscope.instruments.trace.replay import Replay
from soscope.instruments.trace.settings import MODE_TRACE
from soscope.instruments.trace.summary import SummaryRow, rows_of
from soscope.model.image import TracedImage, TracedSlot

if TYPE_CHECKING:
    from soscope.frames.names import CallFrames
    from soscope.model.call import Stats
    from soscope.recording.calls import Calls
    from soscope.recording.columns import Columns


class Recording:
    """A recording that `soscope trace --record` made, or is still making.

    >>> with soscope.open("run.sosr") as run:
    ...     slow = run.calls[run.calls.duration_ns > 1_000_000]
    ...     table = run.summary()
    >>> (run.path, run.command)
    ('run.sosr', ['cat', '/dev/null'])

    `path` is the file, `command` the words that were traced, empty for a process that ran already.
    After `close` its properties raise RecordingError; calls that were read stay.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file. Raises FormatError if it is no recording, RecordingError."""
        self.path = os.fspath(path)
        self._replay: Replay | None = Replay(path)
        self.command = self._replay.command
        self._columns: Columns | None = None
        self._calls: Calls | None = None

    def _open(self) -> Replay:
        if self._replay is None:
            raise RecordingError(f"'{self.path}' has been closed")
        return self._replay

    @property
    def complete(self) -> bool:
        """Return whether it contains everything that was asked for: see `shortfalls`.

        Raises RecordingError.

        >>> soscope.open("run.sosr").complete
        True
        """
        return not self.shortfalls

    @property
    def shortfalls(self) -> list[str]:
        """Return what it lacks, in a word or two each, as in the last line of a trace.

        Raises RecordingError.

        >>> soscope.open("run.sosr").shortfalls  # else "dropped events", ...
        []
        """
        return self._open().outcome(None).shortfalls

    @property
    def why(self) -> str:
        """Return why it ended: "exit", "detached", "duration", what is damaged, ...

        Raises RecordingError.

        >>> soscope.open("run.sosr").why
        'exit'
        """
        return self._open().recording.why

    @property
    def images(self) -> list[TracedImage]:
        """Return the images of all programs (fields: see model/image.py). Raises RecordingError.

        >>> [image.name for image in soscope.open("run.sosr").images if image.is_main]
        ['cat']
        """
        return self._open().recording.images

    @property
    def slots(self) -> list[TracedSlot]:
        """Return the slots of all programs (fields: see model/image.py). Raises RecordingError.

        >>> sorted(slot.symbol for slot in soscope.open("run.sosr").slots if "read" in slot.symbol)
        ['__freading', 'read']
        """
        return self._open().recording.slots

    @property
    def calls(self) -> Calls:
        """Return all calls, read at the first use. There are none if calls were only counted.

        Raises RecordingError.

        >>> calls = soscope.open("run.sosr").calls
        >>> calls.result[calls.symbol == "read"].tolist()
        [0]
        """
        if self._calls is None:
            from soscope.recording.calls import calls_of

            replay = self._open()
            self._calls = calls_of(self._read(), replay.recording.programs, _stacks(replay))
        return self._calls

    def batches(self, rows: int = 1 << 20) -> Iterator[Calls]:
        """Yield all calls in order, at most `rows` of them at once, in bounded memory.

        Nothing is kept. The file is read twice, as the end of a call may be far behind the call.
        Raises ValueError if `rows` is not positive.

        >>> [len(some) for some in soscope.open("run.sosr").batches(rows=1000)] != []
        True
        """
        if rows < 1:
            raise ValueError(f"rows is {rows}")
        from soscope.recording.calls import calls_of
        from soscope.recording.columns import batches

        replay = self._open()
        recording, stacks = replay.recording, _stacks(replay)
        for part in batches(recording):
            calls = calls_of(part, recording.programs, stacks)
            for start in range(0, len(calls), rows):
                yield calls[start : start + rows]

    def _read(self) -> Columns:
        if self._columns is None:
            from soscope.recording.columns import columns

            self._columns = columns(self._open().recording)
        return self._columns

    def summary(self) -> list[SummaryRow]:
        """Return the rows of `soscope trace -c`, with most own time first, then most calls.

        Times are nanoseconds. Raises RecordingError.

        >>> {row.symbol: row.calls for row in soscope.open("run.sosr").summary()}["read"]
        1
        """
        replay = self._open()
        stats: dict[int, Stats] | None = None
        if replay.mode == MODE_TRACE:
            from soscope.recording.reduce import stats_of

            stats = stats_of(replay.recording)
        return rows_of(replay.programs(stats))

    def close(self) -> None:
        """Close the file. Calls that have been read stay. May be called twice.

        >>> run = soscope.open("run.sosr")
        >>> run.close()
        >>> run
        <Recording run.sosr: closed>
        """
        if self._replay is not None:
            self._replay.close()
            self._replay = None

    def __enter__(self) -> Recording:  # noqa: PYI034  as everywhere here
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._replay is None:
            return f"<Recording {self.path}: closed>"
        what = " ".join(self.command) or "a process"
        count = "" if self._columns is None else f", {len(self._columns):,} calls"
        end = ", ".join(self.shortfalls) or "complete"
        return f"<Recording {self.path} of {what}{count}; {end}>"


def _stacks(replay: Replay) -> CallFrames | None:
    """Return the object that names the stacks of a recording, None if it has no stacks."""
    if not replay.stack_depth:
        return None
    from soscope.frames.names import CallFrames

    return CallFrames(replay.recording.programs)


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Open a recording: `soscope.open`.

    >>> soscope.open("run.sosr")
    <Recording run.sosr of cat /dev/null; complete>

    docs/reference/recording.md describes the format. Raises FormatError if the file is no
    recording, and RecordingError if it cannot be read.
    """
    return Recording(path)
