# SPDX-License-Identifier: Apache-2.0
"""What a part of a program does at the borders of its libraries: `trace`, and what it is made of.

`Meter` is for those who write the groups themselves, as a part of something else.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from _thread import allocate_lock

from soscope_mem import _made
from soscope_mem._agent import CountingError
from soscope_mem._count import ours
from soscope_mem._made import MadeObjects
from soscope_mem._ownfile import opener
from soscope_mem._spans import decorated
from soscope_mem._tally import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO, Union

    from soscope_mem._made import Made
    from soscope_mem._spans import Function
    from soscope_mem._tally import Look

    File = Union[str, os.PathLike[str], TextIO, None]
    Groups = dict[str, Any]

_RESOURCES = {
    "utime": "ru_utime",
    "stime": "ru_stime",
    "inputs": "ru_inblock",
    "outputs": "ru_oublock",
    "signals": "ru_nsignals",
    "minor_faults": "ru_minflt",
    "major_faults": "ru_majflt",
    "voluntary_switches": "ru_nvcsw",
    "involuntary_switches": "ru_nivcsw",
}


class _Collections:
    """Garbage collections of this process: how many, how long, what was collected."""

    def __init__(self) -> None:
        self.calls = 0
        self.ns = 0
        self.collected = 0
        self.texts = 0  # objects that the collector makes to tell us, by type
        self.numbers = 0
        self.tables = 0
        self._since = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Hear of one: the collector calls this, as all of `gc.callbacks`."""
        if len(gc.callbacks) == 1:  # else there would be a table without us
            self.tables += 1
            self.texts += 4
            self.numbers += sum(number > 256 for number in info.values())
        if phase == "start":
            self._since = time.perf_counter_ns()
        elif self._since:
            self.ns += time.perf_counter_ns() - self._since
            self._since = 0
            self.calls += 1
            self.collected += info["collected"]


class _Moment:
    """All counters at one moment."""

    __slots__ = ("collections", "look", "made", "ns", "resources")

    def __init__(self, look: Look | None) -> None:
        self.look = look
        self.made: Made | None = None
        self.ns = 0
        self.resources: tuple[float, ...] = ()
        self.collections: tuple[int, ...] = ()


class Span:
    """From `Meter.begin` to `end`."""

    __slots__ = ("_first", "_last", "_meter")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._first, self._last = meter._moment(), meter._moment()  # before anything is counted
        meter._read_rest(self._first)
        meter._read_made(self._first)
        self._first.ns = time.monotonic_ns()
        if self._first.look is not None:
            self._first.look.take()

    def end(self) -> Groups:
        """Return the groups of what has happened; times are in seconds.

        What was not seen is under `unseen`, by group and reason.
        """
        last = self._last
        if last.look is not None:
            last.look.take()
        last.ns = time.monotonic_ns()
        self._meter._read_made(last)
        self._meter._read_rest(last)
        return self._meter._between(self._first, last)


class Meter:
    """Counts what the process does, from `open` to `close`; both may be called more than once.

    >>> meter = Meter()
    >>> meter.open()
    >>> span = meter.begin()
    >>> kept = [bytearray(1000) for _ in range(10)]
    >>> span.end()["objects"]["types"]["bytearray"]
    10
    >>> meter.close()
    """

    def __init__(self) -> None:
        """Find the agent. What it cannot do is said by each span."""
        self._unseen: dict[str, str] = {}
        self._tally: Tally | None = None
        self._made: MadeObjects | None = None
        self._is_made_open = False
        self._lock = allocate_lock()
        self._users = 0
        self._collections = _Collections()
        try:
            self._tally = Tally()
        except CountingError as error:
            self._unseen["all"] = str(error)
        try:
            self._made = MadeObjects()
        except CountingError as error:
            self._unseen["objects"] = str(error)
        os.register_at_fork(after_in_child=self._forked)

    def open(self) -> None:
        """Begin to count."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            gc.callbacks.append(self._collections)
            self._hook()
            if self._made is not None:
                try:
                    self._made.open()
                    self._is_made_open = True
                    self._unseen.pop("objects", None)
                except CountingError as error:
                    self._unseen["objects"] = str(error)

    def close(self) -> None:
        """Count no more, and give everything back."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if self._made is not None and self._is_made_open:
                self._made.close()
                self._is_made_open = False
            if self._tally is not None:
                self._tally.close()
            if self._collections in gc.callbacks:
                gc.callbacks.remove(self._collections)

    def stay(self) -> None:
        """Leave the slots hooked for good: to hook them for each of many spans costs more."""
        with self._lock:
            self._hook()

    def _hook(self) -> None:
        try:
            if self._tally is not None:
                self._tally.open()
        except CountingError as error:
            self._tally = None
            self._unseen["all"] = str(error)

    def begin(self) -> Span:
        """Return a span that begins now; any number of them may go on at the same time."""
        return Span(self)

    def _moment(self) -> _Moment:
        return _Moment(None if self._tally is None else self._tally.look())

    def _read_made(self, moment: _Moment) -> None:
        if self._made is not None and self._is_made_open:
            try:
                moment.made = self._made.look()
            except CountingError as error:
                self._unseen["objects"] = str(error)

    def _read_rest(self, moment: _Moment) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        counted = self._collections
        moment.resources = tuple(getattr(usage, name) for name in _RESOURCES.values())
        moment.collections = (
            *(counted.calls, counted.ns, counted.collected),
            *(counted.tables, counted.texts, counted.numbers),
        )

    def _between(self, first: _Moment, last: _Moment) -> Groups:
        if self._tally is not None:
            self._tally.refresh()
        calls, ns, collected, *ours = (
            new - old for new, old in zip(last.collections, first.collections)
        )
        groups: Groups = {"time": (last.ns - first.ns) / 1e9}
        unseen: Groups = {}
        if self._made is not None and first.made is not None and last.made is not None:
            types = self._made.between(first.made, last.made)
            for name, count in zip(("dict", "str", "int"), ours):
                if name in types:
                    types[name] -= min(count, types[name])
                    if not types[name]:
                        del types[name]
            groups["objects"] = {"created": sum(types.values()), "types": _sorted(types)}
        groups["gc"] = {"calls": calls, "time": ns / 1e9, "collected": collected}
        groups.update({"memory": {}, "fd": {}})
        if self._tally is not None and first.look is not None and last.look is not None:
            groups.update(self._tally.between(first.look, last.look))
            unseen.update(self._tally.unseen())
        groups["resources"] = {
            name: _rounded(new - old)
            for name, new, old in zip(_RESOURCES, last.resources, first.resources)
        }
        for group, why in self._unseen.items():
            unseen.setdefault(group, {})[why] = {}
        if unseen:
            groups["unseen"] = unseen
        return groups

    def _forked(self) -> None:
        self._lock = allocate_lock()
        if self._users:
            self._users = 0
            gc.callbacks[:] = [each for each in gc.callbacks if each is not self._collections]
        if self._made is not None:
            self._made.forked()
        self._is_made_open = False


def _sorted(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _rounded(number: float) -> float:
    return round(number, 6)


class _State:
    meter: Meter | None = None


def meter() -> Meter:
    """Return the process's meter; there is one, which the first call makes."""
    if _State.meter is None:
        _State.meter = Meter()
    return _State.meter


class _Trace:
    """A span of a program whose calls are written when it ends."""

    __slots__ = ("_file", "_pid", "_span")

    def __init__(self, file: File) -> None:
        self._file = file

    def __enter__(self) -> None:
        counts = meter()
        self._pid = os.getpid()
        counts.open()
        self._span = counts.begin()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if os.getpid() != self._pid:
            return  # a forked child: the trace is its parent's
        groups = self._span.end()
        meter().close()
        if kind is None:
            _write(self._file, groups)

    def __call__(self, function: Function) -> Function:
        return decorated(function, lambda _: _Trace(self._file))


def trace(file: File = None) -> _Trace:
    """Return what counts during a `with` block, or each call of the function that it decorates.

    At the end it writes one line, a JSON object: `time`, and the groups `objects`, `gc`, `memory`,
    `fd`, `resources`, and `postgres`, `mysql`, `memcache`, `redis`, `sqlite3` and `ssl` where there
    was any such call. Times are in seconds. `file` is a path, whose file is replaced, or an open
    text file; None: standard output. After an exception nothing is written. Raises OSError.

    >>> with trace("/dev/null"):
    ...     numbers = list(range(1000, 2000))
    """
    return _Trace(file)


def _write(file: File, groups: Groups) -> None:
    import json  # a program that traces nothing does without

    text = json.dumps(groups) + "\n"
    if file is None:
        file = sys.stdout
    if hasattr(file, "write"):
        file.write(text)
        return
    with open(file, "w", encoding="utf-8", opener=opener) as made:
        made.write(text)


_made.own(meter.__code__.co_filename)
ours(meter, Tally.look, _made.own)
