# SPDX-License-Identifier: Apache-2.0
"""Match the calls of a recording, window by window, in bounded memory.

Between windows the open calls are kept as in `pairing`. If arrays do not suffice (coroutines that
continue in another thread, stacks that grow together), the events of a window go through
`pairing` itself, one by one.
"""

from __future__ import annotations

from collections import defaultdict

from soscope.recording import pairing
from soscope.recording.arrays import SlotArrays
from soscope.recording.gather import LOST, Gatherer, Thread
from soscope.recording.match_arrays import Matched, OneByOne, Part, may_have_moved, stacks_of
from soscope.recording.pairing import OpenCall
from soscope.recording.reader import RecordingFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 1 << 18  # units in a window, whose arrays stay in the processor's caches


class Windows:
    """The windows of a recording, about `size` units each, or one window if it is None.

    With `deep`, depths and return addresses are found, which `summary` does not need. `closed`
    are the calls that were open when their thread ended, in the window or between it and the last
    one, each with its index of `columns.ENDED`.
    """

    def __init__(self, recording: RecordingFile, size: int | None = SIZE, *, deep: bool) -> None:
        self.recording = recording
        self.closed: list[tuple[OpenCall, int]] = []
        self._gatherer = Gatherer(recording)
        self._size = size
        self._deep = deep
        self._slots: dict[int, SlotArrays] = {}

    def __iter__(self) -> Iterator[list[Matched]]:
        """Yield the results of each window, by thread."""
        for runs in self._gatherer.windows(self._size):
            self.closed = []
            over = self._gatherer.threads_over()
            groups: dict[pairing.Pairing, list[Matched]] = defaultdict(list)
            for run in runs:
                key = run.thread.key
                if key[0] not in self._slots:
                    self._slots[key[0]] = SlotArrays(self.recording.programs[key[0]])
                groups[self._gatherer.pairing(key)].append(Matched(run, self._slots[key[0]]))
            for pairs, group in groups.items():
                if not self._match(pairs, group):
                    ends = [ended for ended in over if self._gatherer.pairing(ended.key) is pairs]
                    over = [ended for ended in over if ended not in ends]
                    OneByOne(pairs, group, ends, self.close).run()
            for thread in over:
                self.close(self._gatherer.pairing(thread.key), thread)
            yield [matched for group in groups.values() for matched in group]
            for run in runs:  # users of the window are done with it
                if run.thread.spans.are_many:
                    _fold(run.thread)

    def close(self, pairs: pairing.Pairing, thread: Thread) -> None:
        """End the calls of a thread that has ended."""
        if self._gatherer.has_holes_at_end(thread):
            thread.state.holes += 1
        for call in pairs.end(thread.state):
            lost = call.may_be_lost and thread.fate
            self.closed.append((call, LOST if lost else thread.fate))

    def _match(self, pairs: pairing.Pairing, group: list[Matched]) -> bool:
        """Match the events of a program and process by arrays. Return False if these fail."""
        parts: list[list[Part]] = []
        for matched in group:
            split = stacks_of(matched.run)
            if split is None:
                return False
            parts.append([Part(matched, *stack) for stack in split])
        for mine in parts:
            for part in mine:
                part.match(deep=self._deep)
        if may_have_moved(pairs, parts):
            return False
        for mine in parts:
            for part in mine:
                part.keep(deep=self._deep)
        return True


def _fold(thread: Thread) -> None:
    """Keep only what later returns can need of a thread's overheads."""
    state = thread.state
    calls = [*state.open(), *state.again.values()]
    for some in state.unwound.values():
        calls += some
    thread.spans.fold([call.tsc for call in calls], thread.last)
