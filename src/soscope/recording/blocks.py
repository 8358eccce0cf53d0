# SPDX-License-Identifier: Apache-2.0
"""The blocks of a recording that hold no calls: events, sums, troubles, as JSON."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from _json import encode_basestring_ascii, make_encoder  # 0.2 ms; json takes 8

from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.model.record import Record
from soscope.recording import format as form
from soscope.recording.sink import Stop, Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Conversion of process events to the JSON objects of EVENTS blocks, and back.


def to_json(event: Told) -> dict[str, object]:
    """Return the JSON object for `event`."""
    if isinstance(event, Signal):
        return {
            "type": "signal",
            "time_ns": event.time_ns,
            "pid": event.pid,
            "tid": event.tid,
            "signal": event.signal,
        }
    if isinstance(event, ProcessStart):
        said: dict[str, object] = {
            "type": "process",
            "time_ns": event.time_ns,
            "pid": event.pid,
            "event": event.event,
            "parent": event.parent,
            "program": event.program,
        }
        if event.arch:
            said |= {"arch": event.arch, "engine": event.engine}
        return said
    return {
        "type": "exit",
        "time_ns": event.time_ns,
        "pid": event.pid,
        "status": event.status,
        "signal": event.signal,
    }


def thread_end_to_json(time_ns: int, pid: int, tid: int) -> dict[str, object]:
    """Return the JSON object for the end of a thread."""
    return {"type": "thread-end", "time_ns": time_ns, "pid": pid, "tid": tid}


def stop_to_json(stop: Stop) -> dict[str, object]:
    """Return the JSON object for the end of the recording."""
    return {
        "type": "stop",
        "time_ns": stop.time_ns,
        "tsc": stop.tsc,
        "program": stop.program,
    }


def _integer(said: dict[str, object], name: str) -> int:
    value = said.get(name)
    if not isinstance(value, int) or abs(value) >> 63:
        raise ValueError(f"{name} is not an integer")
    return value


def _integer_or_none(said: dict[str, object], name: str) -> int | None:
    return None if said.get(name) is None else _integer(said, name)


def from_json(said: object) -> Told | Stop | tuple[int, int, int] | None:
    """Return the event of a JSON object. The end of a thread is (time_ns, pid, tid).

    Return None for an unknown type. Raises ValueError if a field is invalid.
    """
    if not isinstance(said, dict):
        raise ValueError("an event is not an object")  # noqa: TRY004  the file's fault
    kind = str(said.get("type"))
    if kind == "stop":
        return Stop(
            _integer(said, "time_ns"), _integer(said, "tsc"), _integer_or_none(said, "program")
        )
    if kind not in {"signal", "process", "exit", "thread-end"}:
        return None
    time_ns, pid = _integer(said, "time_ns"), _integer(said, "pid")
    if kind == "signal":
        return Signal(time_ns, pid, _integer(said, "tid"), _integer(said, "signal"))
    if kind == "thread-end":
        return time_ns, pid, _integer(said, "tid")
    if kind == "process":
        return ProcessStart(
            time_ns,
            pid,
            str(said.get("event")),
            _integer_or_none(said, "parent"),
            str(said.get("program")),
            str(said.get("arch", "")),
            str(said.get("engine", "")),
        )
    return ProcessExit(
        time_ns, pid, _integer_or_none(said, "status"), _integer_or_none(said, "signal")
    )


# JSON as `json.dumps` writes it, without importing its decoder, whose import is slow.


def compact(said: object) -> bytes:
    """Return `said` as JSON without spaces, in ASCII. Raises TypeError for what JSON has not.

    >>> from soscope.recording.blocks import compact
    >>> compact({"a": [1, None, "é"]})
    b'{"a":[1,null,"\\\\u00e9"]}'
    """
    encoder = make_encoder(
        {},
        _refuse,
        encode_basestring_ascii,
        None,
        ":",
        ",",
        False,
        False,
        True,
    )
    return "".join(encoder(said, 0)).encode()


def _refuse(value: object) -> object:
    raise TypeError(f"not for JSON: {type(value).__name__}")


# Sums in a recording that are overwritten again and again, and survive a kill meanwhile.
#
# Two blocks take turns: while one is overwritten, the other has the previous sums.

_HEAD = struct.Struct("<QQII")  # sequence, bytes, CRC, 0
_LEAST = 1 << 14  # bytes of a block, at least
Block = list[bytes | memoryview]


class SumsPlaces:
    """The places of sums in a file: up to two, each with room for so many bytes."""

    __slots__ = ("_places", "_sequence")

    def __init__(self) -> None:
        self._places: list[tuple[int, int]] = []  # (offset, room), the newest one last
        self._sequence = 0

    def write(self, descriptor: int, data: bytes, append: Callable[[Block], int | None]) -> bool:
        """Write sums. Return whether they are in the file. Raises OSError.

        `append` adds a block at the end and returns its offset, None if there is no room.
        """
        self._sequence += 1
        body = pack(self._sequence, data)
        place = self._places.pop(0) if len(self._places) > 1 else None
        if place is not None and len(body) <= place[1]:
            at = memoryview(body)
            offset = place[0] + form.HEADER.size
            while at:
                done = os.pwrite(descriptor, at, offset)
                at, offset = at[done:], offset + done
            self._places.append(place)
            return True
        if len(body) > form.MAX_LENGTH:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        room = min(max(2 * len(body), _LEAST), form.MAX_LENGTH)
        block = form.block(form.SUMS, body, bytes(room - len(body)), flags=form.REWRITTEN)
        start = append(block)
        if start is None:
            if place is not None:
                self._places.insert(0, place)
            return False
        self._places.append((start, room))
        return True


def pack(sequence: int, data: bytes) -> bytes:
    """Return the body of a block with `data`."""
    head = _HEAD.pack(sequence, len(data), 0, 0)
    return _HEAD.pack(sequence, len(data), zlib.crc32(data, zlib.crc32(head)), 0) + data


def unpack(body: bytes) -> tuple[int, bytes] | None:
    """Return (sequence, data) of a block, None if it is half written."""
    if len(body) < _HEAD.size:
        return None
    sequence, length, crc, _ = _HEAD.unpack_from(body)
    data = body[_HEAD.size : _HEAD.size + length]
    if len(data) != length:
        return None
    head = _HEAD.pack(sequence, length, 0, 0)
    return (sequence, data) if zlib.crc32(data, zlib.crc32(head)) == crc else None


# The first failure to write a recording, noted in the recording itself.
#
# A full disk takes no new block, but an existing one can be changed.

_BODY = struct.Struct("<IIQ")
_MOST = 4095  # MAX_ERRNO of <linux/err.h>
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Trouble(Record):
    """The first failure to write: its `code` (errno), and `at_byte`, the file's length then."""

    code: int
    at_byte: int

    @property
    def is_full(self) -> bool:
        """Return whether there was no room for more."""
        return self.code in _FULL

    @property
    def why(self) -> str:
        """Return the reason in words."""
        return os.strerror(self.code)

    def block(self) -> bytes:
        """Return the block that notes the failure."""
        return b"".join(form.block(form.TROUBLE, _BODY.pack(self.code, 0, self.at_byte)))

    @classmethod
    def unpack(cls, body: bytes) -> Trouble | None:
        """Return the failure that a block notes, None if there was none. Raises ValueError."""
        if len(body) != _BODY.size:
            raise ValueError(f"has {len(body)} bytes instead of {_BODY.size}")
        code, _, at_byte = _BODY.unpack(body)
        if code > _MOST:
            raise ValueError(f"tells of the impossible error {code}")
        return cls(code, at_byte) if code else None
