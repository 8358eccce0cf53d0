# SPDX-License-Identifier: Apache-2.0
"""What is known when a trace has ended: the programs, what was hooked, what was lost.

A live run and a recording that is read back both end in an `Outcome`; the reports know
nothing else.
"""

from __future__ import annotations

from soscope.instruments.trace.filter import Selection
from soscope.model.image import Image
from soscope.model.slot import Slot

# Why a recording ended before its program; "" if it did not.
STOPPED_DURATION = "duration"  # --duration
STOPPED_LIMIT = "limit"  # --limit
STOPPED_FULL = "full"  # --when-full=stop
STOPPED_CUT = "cut"  # a recording that ends in the middle: damaged, or soscope was killed

# What gives pointers away that are then called through no slot.
DLSYM = frozenset({"dlsym", "dlvsym"})

# slot index -> (calls, returns, errors, total, min, max), times in ticks of the clock
Stats = dict[int, tuple[int, int, int, int, int, int]]


class ProgramOutcome:
    """One traced program: what one control block held at the end.

    `index` is the `process` of its images and slots, `path` the file that was run.
    `images` are all that were seen. `slots` are, of those that the filter chose, the ones
    that a report may name: called, refused, or of DLSYM; all of them where a word of the
    filter matched nothing.
    `counts` (slot index -> calls) and `stats` are there in their modes only. `ns_per_tick`
    turns the ticks of `stats` into time. `rules_matched` has a number for each rule of the
    filter. `slots_left` counts function slots that nobody asked for, `loader_refused` says
    that images loaded later were not seen, `errno_known` that errno could be read.
    `cut` counts images and slots for which there was no room.
    """

    __slots__ = (
        "counts",
        "cut",
        "errno_known",
        "images",
        "index",
        "loader_refused",
        "ns_per_tick",
        "path",
        "rules_matched",
        "slots",
        "slots_left",
        "stats",
    )

    def __init__(
        self,
        index: int,
        path: str,
        images: list[Image],
        slots: list[Slot],
        *,
        counts: dict[int, int] | None = None,
        stats: Stats | None = None,
        ns_per_tick: float = 1.0,
        rules_matched: list[int] | None = None,
        slots_left: int = 0,
        loader_refused: bool = False,
        errno_known: bool = True,
        cut: int = 0,
    ) -> None:
        self.index = index
        self.path = path
        self.images = images
        self.slots = slots
        self.counts = counts
        self.stats = stats
        self.ns_per_tick = ns_per_tick
        self.rules_matched = rules_matched or []
        self.slots_left = slots_left
        self.loader_refused = loader_refused
        self.errno_known = errno_known
        self.cut = cut


class Outcome:
    """The end of a trace.

    `status` is the exit status of the command, `signal` the number of the signal that
    killed it; both are None where the end was not seen. `calls` counts the calls that the
    event stream held (None: there was none). `dropped` are pairs of a count and a reason,
    for people. `stopped` is one of the STOPPED_ constants or "". `untraced` are pairs of a
    program and the reason why it ran untraced (a word of process.reasons), `remarks` lines
    that say what else could not be done.
    `imported` are the function symbols that images of the programs import, as far as
    somebody looked them up: they are the candidates for near misses. `record` is the
    recording that was written.
    """

    __slots__ = (
        "calls",
        "command",
        "dropped",
        "imported",
        "programs",
        "record",
        "remarks",
        "selection",
        "signal",
        "status",
        "stopped",
        "untraced",
    )

    def __init__(
        self,
        command: list[str],
        selection: Selection,
        *,
        status: int | None = None,
        signal: int | None = None,
        programs: list[ProgramOutcome] | None = None,
        calls: int | None = None,
        dropped: list[tuple[int, str]] | None = None,
        stopped: str = "",
        untraced: list[tuple[str, str]] | None = None,
        remarks: list[str] | None = None,
        imported: set[str] | None = None,
        record: str | None = None,
    ) -> None:
        self.command = command
        self.selection = selection
        self.status = status
        self.signal = signal
        self.programs = programs or []
        self.calls = calls
        self.dropped = dropped or []
        self.stopped = stopped
        self.untraced = untraced or []
        self.remarks = remarks or []
        self.imported = imported or set()
        self.record = record

    @property
    def dropped_count(self) -> int:
        """Return how many events are missing in all."""
        return sum(count for count, _ in self.dropped)
