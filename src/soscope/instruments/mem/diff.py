# SPDX-License-Identifier: Apache-2.0
"""Compare two recordings, or their reports as JSON, by file, line and type."""

from __future__ import annotations

import itertools
import posixpath
from typing import Any

from soscope.errors import RecordingError
from soscope.instruments.mem.model import COMPLETE, SCHEMA, MemReport
from soscope.model.call import StackFrame
from soscope.model.record import PlainRecord, Record, fresh
from soscope.recording.reader import document_of, document_text, number_of, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OBJECTS, BLOCKS = "objects", "blocks"

# file, line, type
Place = tuple[str | None, int, str]
# count, bytes
_Sum = tuple[int, int]
_NOTHING: _Sum = (0, 0)


class MemSums(Record):
    """Counts and bytes by file, line and type. `live` is how many things are alive in all."""

    live: int
    by_place: dict[Place, _Sum] = fresh(dict)

    def add(self, place: Place, count: int, size: int) -> None:
        """Add `count` things with `size` bytes in total."""
        before = self.by_place.get(place, _NOTHING)
        self.by_place[place] = before[0] + count, before[1] + size

    @property
    def total(self) -> _Sum:
        """Return the count and the bytes of all rows."""
        rows = self.by_place.values()
        return sum(count for count, _ in rows), sum(size for _, size in rows)


class MemSide(Record):
    """One side of a comparison: the content of the file `path`.

    `objects` and `blocks` are None if they were not recorded. `state` and `notes` are those of
    its report.
    """

    path: str
    state: str
    notes: list[str]
    objects: MemSums | None = None
    blocks: MemSums | None = None

    def sums(self, what: str) -> MemSums | None:
        """Return the sums of OBJECTS or BLOCKS, None if they were not recorded."""
        return self.objects if what == OBJECTS else self.blocks


class DiffRow(PlainRecord):
    """A file, line and type, with the counts and bytes on both sides."""

    __slots__ = ("bytes_a", "bytes_b", "count_a", "count_b", "file", "line", "type")

    def __init__(self, place: Place, a: _Sum, b: _Sum) -> None:
        self.file, self.line, self.type = place
        self.count_a, self.bytes_a = a
        self.count_b, self.bytes_b = b

    @property
    def growth(self) -> _Sum:
        """Return by how many things and by how many bytes side b has more."""
        return self.count_b - self.count_a, self.bytes_b - self.bytes_a


class MemDiff:
    """The `rows` of two sides, sorted by growth. `what` is OBJECTS or BLOCKS.

    `total_a` and `total_b` are the count and the bytes of all rows. `is_complete` means that both
    recordings reach the end of their programs. `notes` tell what is missing.
    """

    __slots__ = ("is_complete", "notes", "paths", "rows", "total_a", "total_b", "what")

    def __init__(self, what: str, a: MemSide, b: MemSide) -> None:
        """Compare two sides. Raises RecordingError if a side has no objects or blocks."""
        self.what = what
        self.paths = a.path, b.path
        of_a, of_b = _sums(a, what), _sums(b, what)
        self.rows = changes(of_a, of_b)
        self.total_a, self.total_b = of_a.total, of_b.total
        self.is_complete = a.state == b.state == COMPLETE
        self.notes: list[str] = []
        for side, sums in ((a, of_a), (b, of_b)):
            if side.state != COMPLETE:
                self.notes.append(f"'{side.path}' is not complete: {side.state}")
            self.notes += [f"'{side.path}': {note}" for note in side.notes]
            count, _ = sums.total
            if count < sums.live:
                some = f"{count:,} of {sums.live:,} {what}"
                self.notes.append(f"'{side.path}' has rows for {some} that were alive")


def compare(path_a: str, path_b: str, *, blocks: bool = False) -> MemDiff:
    """Compare the objects of two files, or their blocks.

    Blocks are compared if `blocks` is True or no file has objects. Raises RecordingError or
    FormatError if a file does not come from soscope mem, or if the two have nothing in common.
    """
    a, b = read_side(path_a), read_side(path_b)
    has_objects = a.objects is not None or b.objects is not None
    return MemDiff(OBJECTS if has_objects and not blocks else BLOCKS, a, b)


def _sums(side: MemSide, what: str) -> MemSums:
    sums = side.sums(what)
    if sums is None:
        other = OBJECTS if what == BLOCKS else BLOCKS
        has = "nothing was" if side.sums(other) is None else f"only {other} were"
        raise RecordingError(f"'{side.path}' has no {what}: {has} recorded")
    return sums


def changes(a: MemSums, b: MemSums) -> list[DiffRow]:
    """Return a row for each place of either side, those with most growth first."""
    rows = [
        DiffRow(place, a.by_place.get(place, _NOTHING), b.by_place.get(place, _NOTHING))
        for place in a.by_place.keys() | b.by_place.keys()
    ]
    return sorted(rows, key=_order)


def _order(row: DiffRow) -> tuple[int, int, str, int, str]:
    """Return a sort key: most growth first, by count, then by bytes."""
    count, size = row.growth
    return -count, -size, row.file or "", row.line, row.type


# ---- either kind of file ---------------------------------------------------------


def read_side(path: str) -> MemSide:
    """Return the content of a recording, or of a JSON document of the schema SCHEMA.

    The content of the file decides which of them it is. Raises RecordingError, FormatError.
    """
    text = document_text(path)
    return _of_recording(path) if text is None else _of_document(path, text)


def _of_recording(path: str) -> MemSide:
    from soscope.instruments.mem.report import report_of  # needs numpy, which documents do without
    from soscope.recording.reader import RecordingFile

    with RecordingFile.open(path) as recording:
        report = report_of(recording)
    side = MemSide(path, report.state, report.notes)
    side.objects = sums_of(report)
    if report.native_totals is not None and report.mapped_totals is not None:
        side.blocks = MemSums(report.native_totals.live + report.mapped_totals.live)
        for native in report.native:
            side.blocks.add(place_of(native.api, native.frames), native.count, native.bytes)
    return side


def sums_of(report: MemReport) -> MemSums | None:
    """Return the sums of the objects of a report, None if no objects were recorded."""
    if report.object_totals is None:
        return None
    sums = MemSums(report.object_totals.live)
    for row in report.survivors:
        kind = row.qualname if report.uses_qualname else row.type
        sums.add((row.file, row.line, kind), row.count, row.bytes)
    return sums


def _of_document(path: str, text: bytes) -> MemSide:
    said = document_of(text, SCHEMA)
    if said is None:
        raise RecordingError(f"'{path}' is neither a recording nor a document of soscope mem")
    try:
        return _side_of(path, said)
    except (LookupError, TypeError) as error:
        raise RecordingError(f"'{path}' is a damaged document of soscope mem") from error


def _side_of(path: str, said: dict[str, Any]) -> MemSide:
    """Return the content of a JSON document.

    Raises LookupError if a member is missing, and TypeError if it has another type.
    """
    side = MemSide(path, text_of(said["state"]), [text_of(note) for note in said["notes"]])
    totals = said["totals"]
    if totals["objects"] is not None:
        side.objects = MemSums(number_of(totals["objects"]["live"]))
        for row in said["survivors"]:
            file = None if row["file"] is None else text_of(row["file"])
            place = file, number_of(row["line"]), text_of(row["type"])
            side.objects.add(place, number_of(row["count"]), number_of(row["bytes"]))
    if totals["native"] is not None:
        live = number_of(totals["native"]["live"]) + number_of(totals["mapped"]["live"])
        side.blocks = MemSums(live)
        for row in said["native"]:
            frames = tuple(_frame(frame) for frame in row["frames"])
            place = place_of(text_of(row["api"]), frames)
            side.blocks.add(place, number_of(row["count"]), number_of(row["bytes"]))
    return side


def _frame(said: dict[str, Any]) -> StackFrame:
    image, symbol, file = (
        None if said[name] is None else text_of(said[name]) for name in ("image", "symbol", "file")
    )
    offset, line = (
        None if said[name] is None else number_of(said[name]) for name in ("offset", "line")
    )
    return StackFrame(image, symbol, offset, file, line)


def place_of(api: str, frames: tuple[StackFrame, ...]) -> Place:
    """Return the place where a block was made: the innermost known line, else a function.

    If a script's line has led to the call, lines of the interpreter's own source do not count.
    """
    interpreter = _interpreter(frames)
    source = _source(frame.file for frame in frames if frame.image == interpreter)
    for frame in frames:
        if frame.file is None or frame.line is None:
            continue
        is_script = frame.image is None or interpreter is None
        if is_script or not (frame.image == interpreter or _is_below(frame.file, source)):
            return frame.file, frame.line, api
    if not frames or frames[0].image is None:
        return None, 0, api
    image, symbol, offset = frames[0].image, frames[0].symbol, frames[0].offset
    if symbol is not None:
        return f"{image}!{symbol}", 0, api
    return image if offset is None else f"{image}+{offset:#x}", 0, api


def _interpreter(frames: tuple[StackFrame, ...]) -> str | None:
    """Return the image of the interpreter that runs a script's frames, None if there is none.

    Only the interpreter itself calls its evaluator, so it is the image of the frame that calls a
    frame of a script.
    """
    for callee, caller in itertools.pairwise(frames):
        if callee.image is None and callee.file is not None and caller.image is not None:
            return caller.image
    return None


def _source(files: Iterable[str | None]) -> str | None:
    """Return the folder with the sources of an interpreter and of its own modules."""
    folders = {posixpath.normpath(posixpath.dirname(file)) for file in files if file}
    shared = posixpath.commonpath(folders) if len({*map(posixpath.isabs, folders)}) == 1 else ""
    return shared if shared.strip("/") else None


def _is_below(file: str, folder: str | None) -> bool:
    return folder is not None and posixpath.normpath(file).startswith(folder + "/")
