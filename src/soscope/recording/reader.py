# SPDX-License-Identifier: Apache-2.0
"""Read a recording that is complete, damaged, or still being written.

When a recording is opened, everything except the calls is read. The calls are read piece by
piece, as often as needed. Whatever a file contains, the reader never reads or keeps more than the
file holds.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any, Self

from soscope.binfmt.source import READING, kind_of
from soscope.errors import FormatError, RecordingError
from soscope.model.call import Stats, printable
from soscope.model.image import TracedImage, TracedSlot
from soscope.recording import blocks
from soscope.recording import format as form
from soscope.recording.blocks import Trouble, from_json
from soscope.recording.clock import Clock
from soscope.recording.names import Programs, RecordedProgram
from soscope.recording.sink import Losses, Sink, Stop, Told
from soscope.recording.units import Piece, pieces_of
from soscope.recording.userfile import above_stderr
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SCHEMAS = form.SCHEMA.rpartition("/")[0] + "/"
_WINDOW = 1 << 16  # bytes that are read at once in the search for headers
_RECORDS = (form.CHUNK, form.CHUNKS)
_TOLD = (form.EVENTS, form.DROPPED, form.LOST, form.SPOILED)
_NO_TIME = 1 << 63  # more than ns and ticks reach for centuries
# Options by which recordings of other verbs than trace are recognised.
_FAMILIES = {"prof": "prof", "blocks": "mem", "objects": "mem"}
_TRACE = "trace"
_MAGIC = form.MAGIC.to_bytes(4, "little")
_TABLES = {form.IMAGES, form.SLOTS, form.STRINGS, form.CALL_SITES, form.STACKS, form.MOVES}


class RecordingFile:
    """An open recording. `soscope.open` wraps it for users.

    `meta` is the object of its first block. `events` are process events, in the order of the
    file. `damage` tells what is wrong with the file and at which offset, or is None; the rest is
    not read. `end` is the object of the last block, None if there is none. `counts` and `stats`
    map a program's number to what `Sink.counts` and `Sink.stats` got. `objects` has (program,
    object) of `Sink.objects`, `reported` the same of `Sink.reported`, and `samples` the objects of
    `Sink.samples`. `sums` is the last one of `Sink.sums`, None if there are none. `losses` knows
    what is missing.
    """

    def __init__(self, descriptor: int, path: str) -> None:
        """Read the recording in `descriptor`, which this object closes.

        Raises FormatError if it is no recording, and RecordingError if it cannot be read.
        """
        self._descriptor = descriptor
        self.path = path
        self.meta: dict[str, Any] = {}
        self.end: dict[str, Any] | None = None
        self.events: list[Told] = []
        self.prototypes: list[str] = []
        self.clock = Clock()
        self.programs = Programs(self.clock)
        self.losses = Losses()
        self.counts: dict[int, dict[int, int]] = {}
        self.stats: dict[int, Stats] = {}
        self.objects: list[tuple[int, dict[str, Any]]] = []
        self.samples: list[dict[str, Any]] = []
        self.reported: list[tuple[int, dict[str, Any]]] = []
        self.sums: bytes | None = None
        self._sums_sequence = 0
        self._half_sums: int | None = None  # offset of sums that are half written
        self.trouble: Trouble | None = None
        self.damage: str | None = None
        self._window = (0, b"")
        self._start = 0  # offset of the block behind META
        self._read_to = 0  # everything before this offset is known
        self._damaged_at: int | None = None
        try:
            self._open()
            self.refresh()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RecordingFile:
        """Open the recording at `path`; see `__init__` for the errors."""
        name = os.fspath(path)
        try:
            descriptor = above_stderr(os.open(name, READING))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            code = error.errno if isinstance(error, OSError) else None
            raise RecordingError(f"cannot open '{name}': {reason}", errno=code) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise RecordingError(f"cannot open '{name}': not a regular file")
        return cls(descriptor, name)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- content ----

    @property
    def complete(self) -> bool:
        """Return whether it is undamaged and reaches the end of the program."""
        return self.damage is None and self.end is not None and bool(self.end.get("complete"))

    @property
    def lacking(self) -> list[str]:
        """Return lines that tell what was to be observed and was not (see `Outcome.lacking`)."""
        lines = (self.end or {}).get("lacking")
        return [printable(str(line)) for line in lines] if isinstance(lines, list) else []

    @property
    def why(self) -> str:
        """Return why it ends where it ends."""
        if self.damage is not None:
            return self.damage
        if self.end is None:
            return "it was cut off, or is still being written"
        return str(self.end.get("why") or "")

    @property
    def sound_bytes(self) -> int:
        """Return how many bytes of it could be read, up to the damage or its end."""
        return self._read_to if self._damaged_at is None else self._damaged_at

    @property
    def images(self) -> list[TracedImage]:
        """Return the images of all programs."""
        return [image for program in self.programs.all() for image in program.images().values()]

    @property
    def slots(self) -> list[TracedSlot]:
        """Return the slots of all programs."""
        return [slot for program in self.programs.all() for slot in program.slots()]

    @property
    def size(self) -> int:
        """Return the size of the file in bytes."""
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise self._unreadable(error) from error

    @property
    def family(self) -> str:
        """Return the verbs that read it: "trace", "mem" or "prof"."""
        options = self.options
        if "mode" in options:
            return _TRACE
        return next((name for key, name in _FAMILIES.items() if key in options), _TRACE)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of its session and instruments, {} if they are not known."""
        options = self.meta.get("options")
        return options if isinstance(options, dict) else {}

    @property
    def totals(self) -> dict[str, Any]:
        """Return what instruments have said at the end, {} if there is no end."""
        totals = (self.end or {}).get("totals")
        return totals if isinstance(totals, dict) else {}

    def expect(self, *families: str) -> None:
        """Raise RecordingError unless the verbs of one of `families` can read the recording."""
        if self.family not in families:
            verb = "report" if self.family == _TRACE else f"{self.family} report"
            raise RecordingError(
                f"'{self.path}' is a recording of soscope {self.family}",
                hint=f"soscope {verb} {self.path} shows it",
            )

    # ---- blocks ----

    def refresh(self) -> bool:
        """Read what has been written since. Return whether there was anything."""
        before = self._read_to
        if self._damaged_at is not None and self._damaged_at == self._read_to:
            # Half a block may have been completed since. Other damage stays.
            self.damage = None
            self._damaged_at = None
        self._window = (0, b"")
        for kind, offset, length in self._blocks(self._read_to):
            body: bytes | None = b""
            if kind not in _RECORDS:
                body = self._body(kind, offset, length)
                if body is None:
                    break
                try:
                    self._take(kind, body)
                except (ValueError, RecursionError) as error:
                    self._damage(offset, f"{_name(kind)} block: {error}")
                    break
            self._read_to = offset + form.padded(length)
            if kind == form.SUMS and blocks.unpack(body or b"") is None:
                self._half_sums = offset
            if kind == form.END:
                if self._half_sums is not None:  # no kill, so these sums were complete
                    self._damage(self._half_sums, "SUMS block: crc32 does not match")
                break
        return self._read_to > before

    def _open(self) -> None:
        def refuse(field: str, offset: int, reason: str) -> FormatError:
            return FormatError(
                f"'{self.path}' is not a recording: {field} at offset {offset}: {reason}",
                field=field,
                offset=offset,
            )

        header = self._read(0, form.HEADER.size)
        if not header or not header.startswith(_MAGIC[: len(header)]):
            what, hint = kind_of(header, self.path)
            if not what:
                raise refuse("magic", 0, f"the file begins with {header[:4].hex(' ')}")
            raise FormatError(
                f"'{self.path}' is {what}, not a recording of soscope",
                field="magic",
                offset=0,
                hint=hint,
            )
        if len(header) < form.HEADER.size:
            raise refuse("magic", 0, f"it was cut: the file has {len(header)} bytes")
        _, kind, length, crc, flags = form.HEADER.unpack(header)
        if kind != form.META:
            raise refuse("type", 4, f"{kind} instead of META")
        if length > form.MAX_LENGTH:
            raise refuse("length", 8, f"{length} bytes")
        body = self._read(form.HEADER.size, length)
        if len(body) < length:
            raise refuse("length", 8, f"it was cut: the file has {len(header) + len(body)} bytes")
        if form.checksum(kind, flags, (body,)) != crc:
            raise refuse("crc32", 16, "does not match")
        at = form.HEADER.size
        try:
            meta = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise refuse("meta", at, "is not JSON") from error
        if not isinstance(meta, dict):
            raise refuse("meta", at, "is not an object")
        schema = meta.get("schema")
        if isinstance(schema, str) and schema != form.SCHEMA and schema.startswith(_SCHEMAS):
            raise FormatError(
                f"'{self.path}' is a recording of another kind: schema at offset {at}: "
                f"{schema!r} instead of {form.SCHEMA!r}",
                field="schema",
                offset=at,
                hint="show it with the version of soscope that made it, or a newer one",
            )
        if schema != form.SCHEMA:
            raise refuse("schema", at, f"{meta.get('schema')!r} instead of {form.SCHEMA!r}")
        self.meta = meta
        self._start = self._read_to = form.padded(length)

    def _blocks(self, offset: int) -> Iterator[tuple[int, int, int]]:
        """Yield (type, offset, length) of blocks, up to the end or the damage."""
        size = self.size
        while self._damaged_at is None or offset < self._damaged_at:
            if offset >= size:
                return
            header = self._peek(offset, form.HEADER.size)
            if len(header) < form.HEADER.size:
                self._damage(offset, f"cut off: {len(header)} bytes of a block")
                return
            magic, kind, length, _, _ = form.HEADER.unpack(header)
            if magic != form.MAGIC:
                self._damage(offset, f"magic is {magic:#010x}")
                return
            if length > form.MAX_LENGTH:
                self._damage(offset, f"length is {length}")
                return
            if offset + form.padded(length) > size:
                self._damage(
                    offset,
                    f"cut off: {size - offset} of the {form.padded(length)} bytes of a block",
                )
                return
            yield kind, offset, length
            if kind == form.END:
                return
            offset += form.padded(length)

    def _body(self, kind: int, offset: int, length: int) -> bytes | None:
        """Return the bytes of a block, None if they are damaged."""
        header = self._peek(offset, form.HEADER.size)
        body = self._read(offset + form.HEADER.size, length)
        if len(header) < form.HEADER.size or len(body) < length:
            self._damage(offset, "cut off while it was read")
            return None
        _, _, _, crc, flags = form.HEADER.unpack(header)
        parts: tuple[bytes | memoryview, ...] = (body,)
        if flags & form.HEADS:
            whole = memoryview(body)
            head = form.PAIR_HEADER.size
            parts = whole[:head], *form.heads_and_units(whole[head:])
        if form.checksum(kind, flags, parts) != crc:
            self._damage(offset, f"{_name(kind)} block: crc32 does not match")
            return None
        return body

    def _damage(self, offset: int, reason: str) -> None:
        if self._damaged_at is None or offset < self._damaged_at:
            self._damaged_at = offset
            self.damage = f"damaged at offset {offset}: {reason}"

    def _take(self, kind: int, body: bytes) -> None:
        if kind in _TABLES:
            program, first = form.PAIR_HEADER.unpack_from(_at_least(body, 8))
            self.programs[program].add(kind, first, body[8:])
        elif kind == form.PROGRAM:
            facts = _object(body)
            index = facts.get("index")
            self.programs[index if isinstance(index, int) else -1].facts = facts
        elif kind == form.CLOCK:
            self.clock.add(*_clock(body))
            self.losses.tick(_clock(body)[0])
        elif kind == form.EVENTS:
            self.events += [told for told in _events(body) if not isinstance(told, tuple | Stop)]
        elif kind == form.DROPPED:
            self.losses.dropped(*_dropped(body))
        elif kind == form.LOST:
            self.losses.lost(*_lost(body))
        elif kind == form.SPOILED:
            self.losses.spoil(*_spoiled(body))
        elif kind == form.COUNTS:
            program, _ = form.PAIR_HEADER.unpack_from(_at_least(body, 8))
            cells = form.COUNT_CELL.iter_unpack(_cells(body, form.COUNT_CELL.size))
            self.counts[program] = {slot: calls for slot, _, calls in cells}
        elif kind == form.STATS:
            program, _ = form.PAIR_HEADER.unpack_from(_at_least(body, 8))
            rows = form.STATS_CELL.iter_unpack(_cells(body, form.STATS_CELL.size))
            self.stats[program] = {row[0]: (*row[2:], None) for row in rows}
        elif kind == form.SELF_TIMES:
            program, _ = form.PAIR_HEADER.unpack_from(_at_least(body, 8))
            stats = self.stats.get(program, {})
            for slot, _, ticks in form.COUNT_CELL.iter_unpack(_cells(body, form.COUNT_CELL.size)):
                if slot in stats:
                    stats[slot] = (*stats[slot][:6], ticks)
        elif kind == form.OBJECTS:
            program, _ = form.PAIR_HEADER.unpack_from(_at_least(body, 8))
            self.objects.append(
                (self.programs.checked(program), _object(body[form.PAIR_HEADER.size :]))
            )
        elif kind == form.REPORTED:
            program, _ = form.PAIR_HEADER.unpack_from(_at_least(body, 8))
            self.reported.append(
                (self.programs.checked(program), _object(body[form.PAIR_HEADER.size :]))
            )
        elif kind == form.SAMPLES:
            self.samples.append(_object(body))
        elif kind == form.SUMS:
            newer = blocks.unpack(body)
            if newer is not None and newer[0] > self._sums_sequence:
                self._sums_sequence, self.sums = newer
        elif kind == form.TROUBLE:
            self.trouble = Trouble.unpack(body)
        elif kind == form.PROTOTYPES:
            self.prototypes.append(body.decode("utf-8", "surrogateescape"))
        elif kind == form.END:
            self.end = _object(body)

    # ---- the calls ----

    def replay(self, sink: Sink) -> Iterator[None]:
        """Pass the recorded calls to `sink`, in order, up to the damage.

        Programs and their tables are in `programs` already, and are not passed on. Yields after
        each block.
        """
        for kind, offset, length in self._blocks(self._start):
            if kind not in {*_RECORDS, form.CLOCK, *_TOLD}:
                continue
            body = self._body(kind, offset, length)
            if body is None:
                return
            try:
                self._tell(sink, kind, body)
            except (ValueError, RecursionError) as error:
                self._damage(offset, f"{_name(kind)} block: {error}")
                return
            yield

    @staticmethod
    def _tell(sink: Sink, kind: int, body: bytes) -> None:
        if kind == form.CHUNKS:
            sink.chunks(*_chunks(body))
        elif kind == form.CHUNK:
            sink.chunk(*_chunk(body))
        elif kind == form.CLOCK:
            sink.clock(*_clock(body))
        elif kind == form.DROPPED:
            sink.dropped(*_dropped(body))
        elif kind == form.LOST:
            sink.lost(*_lost(body))
        elif kind == form.SPOILED:
            sink.spoiled(*_spoiled(body))
        else:
            for told in _events(body):
                if isinstance(told, tuple):
                    sink.thread_end(*told)
                elif isinstance(told, Stop):
                    sink.stop(told)
                else:
                    sink.event(told)

    def chunks(self) -> Iterator[Piece]:
        """Yield the pieces of chunks in the order of the file, up to the damage."""
        for kind, offset, length in self._blocks(self._start):
            if kind in _RECORDS:
                body = self._body(kind, offset, length)
                if body is None:
                    return
                try:
                    if kind == form.CHUNKS:
                        yield from pieces_of(*_chunks(body))
                    else:
                        yield Piece(*_chunk(body))
                except ValueError as error:
                    self._damage(offset, f"{_name(kind)} block: {error}")
                    return

    def program(self, index: int) -> RecordedProgram:
        """Return a traced program."""
        return self.programs[index]

    # ---- bytes ----

    def _read(self, offset: int, size: int) -> bytes:
        try:
            pieces = []
            while size > 0:
                piece = os.pread(self._descriptor, size, offset)
                if not piece:
                    break
                pieces.append(piece)
                offset += len(piece)
                size -= len(piece)
            return b"".join(pieces)
        except OSError as error:
            raise self._unreadable(error) from error

    def _peek(self, offset: int, size: int) -> bytes:
        """Return a few bytes from a larger piece that is read in advance."""
        start, data = self._window
        if not (start <= offset and offset + size <= start + len(data)):
            data = self._read(offset, _WINDOW)
            start = offset
            self._window = start, data
        return data[offset - start : offset - start + size]

    def _unreadable(self, error: OSError) -> RecordingError:
        return RecordingError(f"cannot read '{self.path}': {error.strerror}", errno=error.errno)


_NAMES = {
    value: name for name, value in vars(form).items() if name.isupper() and type(value) is int
}


def _name(kind: int) -> str:
    return _NAMES.get(kind, str(kind)) if kind <= form.SUMS else str(kind)


def _at_least(body: bytes, size: int) -> bytes:
    if len(body) < size:
        raise ValueError(f"has {len(body)} bytes")
    return body


def _exactly(body: bytes, size: int) -> bytes:
    if len(body) != size:
        raise ValueError(f"has {len(body)} bytes instead of {size}")
    return body


def _cells(body: bytes, size: int) -> bytes:
    cells = body[form.PAIR_HEADER.size :]
    if len(cells) % size:
        raise ValueError(f"has {len(body)} bytes")
    return cells


def _object(body: bytes) -> dict[str, Any]:
    said = json.loads(body)
    if not isinstance(said, dict):
        raise ValueError("is not an object")  # noqa: TRY004  the file's fault
    return said


def _events(body: bytes) -> list[Told | Stop | tuple[int, int, int]]:
    said = json.loads(body)
    if not isinstance(said, list):
        raise ValueError("is not an array")  # noqa: TRY004  the file's fault
    return [told for told in map(from_json, said) if told is not None]


def _clock(body: bytes) -> tuple[int, int, int]:
    tsc, realtime, monotonic = form.CLOCK_BODY.unpack(_exactly(body, form.CLOCK_BODY.size))
    if max(tsc, realtime, monotonic) >= _NO_TIME:
        raise ValueError("has an impossible time")
    return tsc, realtime, monotonic


def _dropped(body: bytes) -> tuple[int, int, tuple[int, ...]]:
    fields = form.DROPPED_BODY.unpack(_exactly(body, form.DROPPED_BODY.size))
    return fields[0], fields[2], fields[3:]


def _lost(body: bytes) -> tuple[int, int, int, int]:
    start, end, entries, exits, _, _ = form.LOST_BODY.unpack(_exactly(body, form.LOST_BODY.size))
    return start, end, entries, exits


def _spoiled(body: bytes) -> tuple[int, int]:
    program, _, count = form.SPOILED_BODY.unpack(_exactly(body, form.SPOILED_BODY.size))
    return program, count


def _chunk(body: bytes) -> tuple[int, bytes, int, bytes]:
    head = form.PAIR_HEADER.size + layout.CHUNK_HEADER
    program, first = form.PAIR_HEADER.unpack_from(_at_least(body, head))
    if (len(body) - head) % layout.UNIT:
        raise ValueError(f"has {len(body)} bytes")
    return program, body[form.PAIR_HEADER.size : head], first, body[head:]


def _chunks(body: bytes) -> tuple[int, bytes]:
    program, count = form.PAIR_HEADER.unpack_from(_at_least(body, form.PAIR_HEADER.size))
    _exactly(body, form.PAIR_HEADER.size + count * layout.CHUNK_SIZE)
    return program, body[form.PAIR_HEADER.size :]


# One side of a comparison: a recording, or a JSON document printed by a report.

_FIRST = 1 << 12  # bytes that tell what a file is


def document_text(path: str) -> bytes | None:
    """Return the content of a file that is no recording, None if it begins as one.

    If it does not begin as a JSON object, only its beginning is returned. Raises RecordingError.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(_FIRST)
            if text.lstrip().startswith(b"{"):  # other files may be endless
                text += file.read()
    except OSError as error:
        reason = (error.strerror or os.strerror(error.errno or 0)).lower()
        raise RecordingError(f"cannot open '{path}': {reason}", errno=error.errno) from error
    return None if text.startswith(_MAGIC) else text


def document_of(text: bytes, schema: str) -> dict[str, Any] | None:
    """Return the JSON object of a schema, None if the text is something else."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None  # no report has printed that
    return said if isinstance(said, dict) and said.get("schema") == schema else None


def number_of(value: object) -> int:
    """Return a member that is an integer. Raises TypeError for others."""
    if type(value) is not int:
        raise TypeError
    return value


def text_of(value: object) -> str:
    """Return a member that is text. Raises TypeError for others."""
    if not isinstance(value, str):
        raise TypeError
    return value
