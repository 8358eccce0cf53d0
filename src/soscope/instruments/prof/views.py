# SPDX-License-Identifier: Apache-2.0
"""A profile as rows of functions, images or threads, by calls or by samples."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable

from soscope.instruments.prof.model import ProfFunction, Profile, ProfSample
from soscope.model.call import StackFrame, importance, is_told
from soscope.model.image import Record

CALLS, SAMPLES = "calls", "samples"

BY_FUNCTION, BY_IMAGE, BY_THREAD = "function", "image", "thread"
GROUPS = (BY_FUNCTION, BY_IMAGE, BY_THREAD)

UNKNOWN = "?"
ANY = "(any)"

_INTERNAL = "<internal:"  # path of a file inside of Ruby


class FlatRow(Record):
    """The numbers of a function, an image or a thread; unknown ones are None.

    `frame` names the function. `count` is a number of calls or of samples. `total_ns` includes
    the time of callees, and `self_ns` does not. `overhead_ns` is what has been subtracted from
    both. `doubt_ns` is the possible error of `self_ns`.
    """

    __slots__ = ("count", "doubt_ns", "frame", "overhead_ns", "self_ns", "total_ns")

    def __init__(self, frame: StackFrame) -> None:
        self.frame = frame
        self.count: int | None = None
        self.total_ns: int | None = None
        self.self_ns: int | None = None
        self.overhead_ns: int | None = None
        self.doubt_ns: int | None = None

    def add(
        self,
        count: int | None,
        total_ns: int | None,
        self_ns: int | None,
        overhead_ns: int | None = None,
        doubt_ns: int | None = None,
    ) -> None:
        """Add the numbers of further calls or samples."""
        self.count = added(self.count, count)
        self.total_ns = added(self.total_ns, total_ns)
        self.self_ns = added(self.self_ns, self_ns)
        self.overhead_ns = added(self.overhead_ns, overhead_ns)
        self.doubt_ns = added(self.doubt_ns, doubt_ns)

    @property
    def is_told(self) -> bool:
        """Return whether `self_ns` is larger than its possible error."""
        return is_told(self.self_ns, self.doubt_ns)


class JoinedRow(Record):
    """Samples and calls of one function, image or thread; one of the two may be None.

    Times of `sampled` are processor time. Times of `called` include waiting.
    """

    __slots__ = ("called", "sampled")

    def __init__(self, sampled: FlatRow | None, called: FlatRow | None) -> None:
        self.sampled = sampled
        self.called = called

    @property
    def frame(self) -> StackFrame:
        """Return the frame that names it."""
        known = self.sampled or self.called
        assert known is not None
        return known.frame

    @property
    def is_told(self) -> bool:
        """Return whether the time of its calls is not known or larger than its possible error."""
        return self.called is None or self.called.is_told


def added(known: int | None, more: int | None) -> int | None:
    """Return the sum of two numbers; None counts as 0, unless both are None."""
    return known if more is None else more + (known or 0)


def frame_of(function: ProfFunction) -> StackFrame:
    """Return a function as a frame. A function without a name has its address as offset."""
    image = function.image or None
    if function.symbol == UNKNOWN and function.size:
        return StackFrame(image, None, function.addr)
    return StackFrame(image, function.symbol, None, function.file, function.line)


def frames_of(sample: ProfSample) -> list[StackFrame]:
    """Return a sample's frames. A frame in no known function is UNKNOWN of its image.

    A function without a name has its address as offset.
    """
    frames = sample.frames or (StackFrame(None, UNKNOWN, None),)
    return [
        frame
        if frame.symbol is not None or frame.offset is not None
        else StackFrame(frame.image, UNKNOWN, None)
        for frame in frames
    ]


def place_of(frame: StackFrame) -> Hashable:
    """Return a key that is equal for all frames of one function."""
    if frame.image is None:  # an interpreter's: the name may occur in many files
        return frame.symbol, frame.file
    return frame.image, frame.offset if frame.symbol is None else frame.symbol


def image_name(frame: StackFrame) -> str:
    """Return the name of a frame's image, or of an interpreter's file, "" if neither is known."""
    return frame.image or file_name(frame.file or "")


def file_name(file: str) -> str:
    """Return the last part of the path of an interpreter's file."""
    last = os.path.basename(file)
    if file.startswith(_INTERNAL) and last != file:
        return _INTERNAL + last  # the last part has the closing bracket
    return last


def function_name(frame: StackFrame) -> str:
    """Return a function's name, or ANY for an image that stands for all its functions."""
    if frame.symbol is None and frame.offset is not None:
        return f"{frame.offset:#x}"
    return frame.symbol or (ANY if frame.symbol == "" and frame.image else UNKNOWN)


def function_rows(profile: Profile) -> list[FlatRow]:
    """Return a row for each function with known calls or times, largest first."""
    rows = []
    for function, sums in zip(profile.functions, profile.sums, strict=True):
        if any(value is not None for value in sums.values()):
            row = FlatRow(frame_of(function))
            row.add(sums.calls, sums.total_ns, sums.self_ns, sums.overhead_ns, sums.doubt_ns)
            rows.append(row)
    return _ranked(rows)


def sample_rows(profile: Profile) -> list[FlatRow]:
    """Return a row for each function that occurs in a sample, largest first.

    `count` is the number of samples in the function itself.
    """
    rows: dict[Hashable, FlatRow] = {}
    for sample in profile.samples:
        frames = frames_of(sample)
        innermost = place_of(frames[0])
        for place, frame in {place_of(frame): frame for frame in frames}.items():
            row = rows.setdefault(place, FlatRow(frame))
            own = sample.weight if place == innermost else 0
            row.add(own, sampled_ns(profile, sample.weight), sampled_ns(profile, own))
    return _ranked(rows.values())


def sampled_ns(profile: Profile, weight: int) -> int | None:
    """Return the time that `weight` samples stand for, None if that is not known."""
    return None if profile.sample_ns is None else weight * profile.sample_ns


def by_image(rows: list[FlatRow]) -> list[FlatRow]:
    """Add up rows of functions by image. Images call each other, so they have no total time."""
    images: dict[str, FlatRow] = {}
    for row in rows:
        name = image_name(row.frame)
        image = images.setdefault(name, FlatRow(StackFrame(name or UNKNOWN, None, None)))
        image.add(row.count, None, row.self_ns, row.overhead_ns, row.doubt_ns)
    return _ranked(images.values())


def by_thread(profile: Profile, what: str) -> list[FlatRow]:
    """Return a row for each thread, none if threads were not told apart."""
    threads: dict[int, FlatRow] = {}

    def row_of(at: int) -> FlatRow:
        return threads.setdefault(at, FlatRow(thread_frame(profile, at)))

    if what == CALLS:
        for node in profile.nodes:
            row_of(node.thread).add(node.calls, None, node.self_ns, None, node.doubt_ns)
    else:
        for sample in profile.samples:
            row_of(sample.thread).add(sample.weight, None, sampled_ns(profile, sample.weight))
    return _ranked(threads.values())


def tables_of(profile: Profile, by: str = BY_FUNCTION) -> dict[str, list[FlatRow]]:
    """Return the rows of CALLS and of SAMPLES. `by` is one of GROUPS."""
    if by == BY_THREAD:
        return {what: by_thread(profile, what) for what in (CALLS, SAMPLES)}
    tables = {CALLS: function_rows(profile), SAMPLES: sample_rows(profile)}
    if by == BY_IMAGE:
        return {what: by_image(rows) for what, rows in tables.items()}
    return tables


def joined(tables: dict[str, list[FlatRow]]) -> list[JoinedRow]:
    """Return the rows of `tables_of` with one row for each function, image or thread.

    Rows with most samples of their own come first, then those with the longest time by samples or
    calls.
    """
    sampled = {place_of(row.frame): row for row in tables[SAMPLES]}
    called: dict[Hashable, FlatRow] = {}
    for row in tables[CALLS]:
        into = called.setdefault(place_of(row.frame), FlatRow(row.frame))
        into.add(row.count, row.total_ns, row.self_ns, row.overhead_ns, row.doubt_ns)
    rows = [JoinedRow(sampled.get(at), called.get(at)) for at in {**sampled, **called}]
    return sorted(rows, key=_joined_rank)


def _joined_rank(row: JoinedRow) -> tuple[object, ...]:
    own = total = by_calls = 0
    if row.sampled is not None:
        own, total = row.sampled.self_ns or 0, row.sampled.total_ns or 0
    if row.called is not None and row.is_told:
        by_calls = row.called.self_ns or 0
    return -own, -max(total, by_calls), image_name(row.frame), row.frame.symbol or ""


def thread_frame(profile: Profile, at: int) -> StackFrame:
    """Return a frame that stands for a thread in a table of frames."""
    thread = profile.threads[at]
    name = f" ({thread.name})" if thread.name else ""
    return StackFrame(None, f"thread {thread.tid} of process {thread.pid}{name}", None)


def _ranked(rows: Iterable[FlatRow]) -> list[FlatRow]:
    rows = list(rows)
    whole = sum(row.self_ns or 0 for row in rows)
    return sorted(rows, key=lambda row: (importance(row.self_ns, row.doubt_ns, whole), *_rank(row)))


def _rank(row: FlatRow) -> tuple[object, ...]:
    largest = (-1 if value is None else value for value in (row.self_ns, row.total_ns, row.count))
    return (*(-value for value in largest), image_name(row.frame), row.frame.symbol or "")
