# SPDX-License-Identifier: Apache-2.0
"""Compare two profiles, or their reports as JSON, function by function."""

from __future__ import annotations

from typing import Any

from soscope.errors import RecordingError
from soscope.instruments.prof.model import COMPLETE, SCHEMA, STATES
from soscope.instruments.prof.views import (
    CALLS,
    SAMPLES,
    FlatRow,
    added,
    function_rows,
    image_name,
    sample_rows,
)
from soscope.model.call import StackFrame, importance
from soscope.model.record import PlainRecord
from soscope.recording.reader import document_of, document_text, number_of, text_of

TIMES = "times"  # times of calls; the others are CALLS and SAMPLES

NEW, GONE = "new", "gone"
SLOWER, FASTER = "slower", "faster"
MORE, FEWER = "more", "fewer"  # number of calls
LONGER, SHORTER = "longer", "shorter"  # for an unknown reason
SAME = ""

_GMON_MAGIC = b"gmon"
_GMON_HINT = "soscope prof report --json --image IMAGE FILE makes a document of a file of gprof's"

# image, symbol, file of an interpreter's function
Place = tuple[str, str, str]


class ProfSide:
    """One side of a comparison: the functions of the file `path`, by calls and by samples.

    `state`, `notes` and `is_chosen` come from its report.
    """

    __slots__ = ("calls", "is_chosen", "notes", "path", "samples", "state")

    def __init__(
        self,
        path: str,
        state: str,
        notes: list[str],
        calls: list[FlatRow],
        samples: list[FlatRow],
        *,
        is_chosen: bool,
    ) -> None:
        self.path = path
        self.is_chosen = is_chosen
        self.state = state
        self.notes = notes
        self.calls = _by_place(calls)
        self.samples = _by_place(samples)

    @property
    def knows(self) -> list[str]:
        """Return what can be compared: TIMES, CALLS, SAMPLES."""
        known = [TIMES] if any(row.self_ns is not None for row in self.calls.values()) else []
        return known + [CALLS] * bool(self.calls) + [SAMPLES] * bool(self.samples)


class ProfDiffRow(PlainRecord):
    """A function on both sides; a side without the function is None.

    `change` is the difference of its own time in ns, or of its calls if calls are compared. `why`
    is one of this module's words, the cause of the larger part of the change. `doubt_ns` is the
    possible error of a change of time: the sum of the errors of both times, or at least the one
    error that is known. It is None if neither is known, or if calls are compared, which are
    exact.
    """

    __slots__ = ("a", "b", "change", "doubt_ns", "frame", "why")

    def __init__(self, a: FlatRow | None, b: FlatRow | None, what: str) -> None:
        there = a or b
        assert there is not None
        self.frame = there.frame
        self.a = a
        self.b = b
        self.change = _value(b, what) - _value(a, what)
        self.doubt_ns: int | None = None
        for row in (a, b) if what != CALLS else ():
            self.doubt_ns = added(self.doubt_ns, None if row is None else row.doubt_ns)
        self.why = _why(self, what)


class ProfDiff:
    """The `rows` of two sides, largest change first. `what` is TIMES, CALLS or SAMPLES.

    Changes that are no larger than their error come last. `total_a` and `total_b` are the sums of
    what is compared. `is_complete` means that both recordings reach the end of their programs.
    `notes` tell what is missing.
    """

    __slots__ = ("is_complete", "notes", "paths", "rows", "total_a", "total_b", "what")

    def __init__(self, what: str, a: ProfSide, b: ProfSide) -> None:
        self.what = what
        self.paths = a.path, b.path
        sides = [side.samples if what == SAMPLES else side.calls for side in (a, b)]
        in_a, in_b = sides
        places = dict.fromkeys((*in_a, *in_b))
        rows = [ProfDiffRow(in_a.get(place), in_b.get(place), what) for place in places]
        whole = sum(abs(row.change) for row in rows)
        self.rows = sorted(
            rows,
            key=lambda row: (importance(abs(row.change), row.doubt_ns, whole), *_order(row)),
        )
        self.total_a, self.total_b = (
            sum(_value(row, what) for row in side.values()) for side in sides
        )
        self.is_complete = a.state == b.state == COMPLETE
        self.notes: list[str] = []
        for side in (a, b):
            if side.state != COMPLETE:
                self.notes.append(f"'{side.path}' is not complete: {side.state}")
            self.notes += [f"'{side.path}': {note}" for note in side.notes]


def compare(path_a: str, path_b: str, *, samples: bool = False) -> ProfDiff:
    """Compare the times of calls in two files, or their counts or samples.

    Counts or samples are compared if not both files have times. Samples are compared with
    `samples`, or if soscope chose how to record both files, as samples cover everything that ran.
    Raises RecordingError or FormatError if a file is no profile, or if the two have nothing in
    common.
    """
    a, b = read_side(path_a), read_side(path_b)
    common = [what for what in a.knows if what in b.knows]
    if samples:
        common = [what for what in common if what == SAMPLES]
    if samples and not common:
        lacking = [f"'{side.path}'" for side in (a, b) if SAMPLES not in side.knows]
        raise RecordingError(f"there are no samples in {' and '.join(dict.fromkeys(lacking))}")
    if not common:
        known = (f"'{side.path}' has {' and '.join(side.knows) or 'nothing'}" for side in (a, b))
        raise RecordingError(f"there is nothing to compare: {', '.join(known)}")
    are_chosen = a.is_chosen and b.is_chosen
    # Times tell more than counts do.
    if SAMPLES in common and (common[0] == CALLS or are_chosen):
        return ProfDiff(SAMPLES, a, b)
    return ProfDiff(common[0], a, b)


def _by_place(rows: list[FlatRow]) -> dict[Place, FlatRow]:
    """Return rows by a key that is equal in two runs. Functions of one name are added up."""
    known: dict[Place, FlatRow] = {}
    for row in rows:
        frame = row.frame
        file = frame.file or "" if frame.image is None else ""
        name = frame.symbol or ("" if frame.offset is None else f"{frame.offset:#x}")
        into = known.setdefault((frame.image or "", name, file), FlatRow(frame))
        into.add(row.count, row.total_ns, row.self_ns, row.overhead_ns, row.doubt_ns)
    return known


def _value(row: FlatRow | None, what: str) -> int:
    if row is None:
        return 0
    return (row.count if what == CALLS else row.self_ns) or 0


def _order(row: ProfDiffRow) -> tuple[int, int, str, str]:
    return -abs(row.change), -row.change, image_name(row.frame), row.frame.symbol or ""


def _why(row: ProfDiffRow, what: str) -> str:
    if row.a is None:
        return NEW
    if row.b is None:
        return GONE
    if not row.change:
        return SAME
    if what == CALLS:
        return MORE if row.change > 0 else FEWER
    if what == SAMPLES or not row.a.count or not row.b.count:
        return LONGER if row.change > 0 else SHORTER
    # The time of the additional calls at the old time per call. The rest is due to the new time
    # per call.
    by_calls = (row.b.count - row.a.count) * (row.a.self_ns or 0) / row.a.count
    by_price = row.change - by_calls
    if abs(by_calls) > abs(by_price):
        return MORE if by_calls > 0 else FEWER
    return SLOWER if by_price > 0 else FASTER


# ---- either kind of file ---------------------------------------------------------


def read_side(path: str) -> ProfSide:
    """Return the content of a recording, or of a JSON document of the schema SCHEMA.

    The content of the file decides which of them it is. Raises RecordingError, FormatError.
    """
    text = document_text(path)
    return _of_recording(path) if text is None else _of_document(path, text)


def _of_recording(path: str) -> ProfSide:
    from soscope.instruments.prof.report import profile_of
    from soscope.recording.reader import RecordingFile

    with RecordingFile.open(path) as recording:
        profile = profile_of(recording)
    return ProfSide(
        path,
        profile.state,
        profile.notes,
        function_rows(profile),
        sample_rows(profile),
        is_chosen=profile.is_chosen,
    )


def _of_document(path: str, text: bytes) -> ProfSide:
    said = document_of(text, SCHEMA)
    if said is None:
        raise RecordingError(
            f"'{path}' is neither a recording nor a document of soscope prof",
            hint=_GMON_HINT if text.startswith(_GMON_MAGIC) else None,
        )
    try:
        if said["state"] not in STATES:
            raise ValueError
        notes = [text_of(note) for note in said["notes"]]
        calls = [_row(row, "calls") for row in said["functions"]]
        count, whole = sum(row.count or 0 for row in calls), _number(said["totals"]["calls"]) or 0
        if count < whole:
            notes.append(f"it has rows for {count:,} of {whole:,} calls")
        return ProfSide(
            path,
            said["state"],
            notes,
            [row for row in calls if (row.count, row.total_ns, row.self_ns) != (None,) * 3],
            [_row(row, "samples") for row in said.get("sampled", [])],
            is_chosen=said.get("run", {}).get("chosen") is True,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise RecordingError(f"'{path}' is a damaged document of soscope prof") from error


def _row(said: dict[str, Any], count: str) -> FlatRow:
    """Return a row of a document. Raises LookupError, TypeError or ValueError if it is none."""
    image, symbol, file = (
        None if said[name] is None else text_of(said[name]) for name in ("image", "symbol", "file")
    )
    addr = said.get("addr")
    offset = int(text_of(addr), 16) if symbol == "?" and addr is not None else None
    row = FlatRow(
        StackFrame(image or None, None if offset is not None else symbol, offset, file, None)
    )
    counted, total, own = (_number(said[name]) for name in (count, "total_ns", "self_ns"))
    # older documents have no errors of times
    row.add(counted, total, own, doubt_ns=_number(said.get("doubt_ns")))
    return row


def _number(value: object) -> int | None:
    return None if value is None else number_of(value)
