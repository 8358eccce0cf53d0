# SPDX-License-Identifier: Apache-2.0
"""Calls that leave the program's libraries, by what they are for: the agent counts them.

It leads the slots of all images to functions of its own while anybody is interested, and gives them
back afterwards. Its counters go on: what happened in between is the difference of two looks.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time
from _thread import allocate_lock

from soscope_mem import _agent, _tables
from soscope_mem._agent import CountingError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Group = dict[str, Any]

# What soscope/tally.h says.
_OPEN, _LOOK, _CLOSE = 1, 2, 3
_NO_CLOCK = 1
_GROUPS = ("", "fd", "memory", "postgres", "mysql", "memcache", "redis", "sqlite3", "ssl")
_TALLY = struct.Struct(_tables.TALLY_FORMAT)
_FUNCTION = struct.Struct(_tables.FUNCTION_FORMAT)
_COUNT = struct.Struct(_tables.COUNT_FORMAT)
_WIRE = struct.Struct(_tables.WIRE_FORMAT)
_LEFT = struct.Struct(_tables.LEFT_FORMAT)
_FUNCTIONS_MAX = 256
# not made by ctypes' own functions: objects of those files would be the program's
_Counts = ctypes.c_char * (_COUNT.size * _FUNCTIONS_MAX)
_Wires = ctypes.c_char * (_WIRE.size * len(_GROUPS))
_Request = ctypes.c_char * _TALLY.size
_ASKS_TEXT, _ASKS_STEP, _ASKS_PREPARED = 5, 6, 7
_NO_BYTES = (0, _ASKS_TEXT, _ASKS_STEP, _ASKS_PREPARED)
_QUERY, _ANSWERS = 1, 4 | 8
_TYPES = ("select", "insert", "update", "delete", "prepared", "other")
_RESPONSES = ("success", "notfound", "notstored", "exists", "", "failed")
_WHYS = (
    "",
    "its address is taken",
    "leads to code of no library",
    "cannot be written",
    "no room",
    "not bound, by stubs that are not known",
    "was being loaded",
    "written by somebody else meanwhile",
)
_PR_GET_TSC, _TSC_FORBIDDEN = 25, 2
_SQLITES = "more than one SQLite library: queries are not told from steps"

# modules that have a library of a group in them where no slot leads to one
_MODULES = {
    "_ssl": "ssl",
    "_sqlite3": "sqlite3",
    "psycopg2._psycopg": "postgres",
    "psycopg_binary": "postgres",
    "MySQLdb._mysql": "mysql",
    "_pylibmc": "memcache",
}
# modules that call one by addresses which ctypes gives them
_BY_ADDRESS = {"psycopg.pq.pq_ctypes": "postgres"}


class _Rule:
    """How one function is counted."""

    __slots__ = ("answers", "group", "has_actual", "has_requested", "name", "operation", "query")

    def __init__(self, data: bytes) -> None:
        said = dict(zip(_tables.FUNCTION_FIELDS, _FUNCTION.unpack(data)))
        asks, flags = said["requested"], said["flags"]
        self.name = said["name"].split(b"\0")[0].decode()
        self.operation = said["operation"].split(b"\0")[0].decode()
        self.group = _GROUPS[said["group"]]
        self.has_requested = asks not in _NO_BYTES
        self.has_actual = said["actual"] != 0
        self.query = asks if asks in _NO_BYTES[1:] or flags & _QUERY else None
        self.answers = flags & _ANSWERS != 0


class Look:
    """All counters at one moment: `take` reads them, and does nothing else."""

    __slots__ = ("_buffers", "_call", "_function", "_request", "ns")

    def __init__(self, tally: Tally) -> None:
        self._function = tally._function
        self._buffers = (_Counts(), _Wires())
        self._request = tally._request(_LOOK, *map(ctypes.addressof, self._buffers))
        self._call = ctypes.addressof(self._request)
        self.ns = 0

    def take(self) -> None:
        """Read the counters as they are now."""
        self._function(self._call)
        self.ns = time.monotonic_ns()

    @property
    def counts(self) -> bytes:
        """Return what was read: a _COUNT for each function."""
        return self._buffers[0].raw

    @property
    def wires(self) -> bytes:
        """Return what was read: a _WIRE for each group."""
        return self._buffers[1].raw

    @property
    def ticks(self) -> int:
        """Return what the processor's clock said."""
        return _answer_of(self._request)["ticks"]


class Tally:
    """The counters of this process; `open` and `close` come in pairs, of any thread."""

    def __init__(self) -> None:
        """Find the agent. Raises CountingError."""
        self._library = _agent.library()
        try:
            function = ("soscope_agent_tally", self._library)
            self._function = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(function)
        except AttributeError as error:
            raise CountingError(f"the agent is of another version: {error}") from error
        # with the lock of the interpreter held, as no thread is to come in between
        process = ctypes.PyDLL(None)
        self._images: int = process._handle
        self._iterate = _address(process, "dl_iterate_phdr")
        self._usable = _address(process, "malloc_usable_size")
        if not self._iterate:
            raise CountingError("calls cannot be counted: there is no dl_iterate_phdr")
        self._lock = allocate_lock()
        self._users = 0
        self._resident = 0
        self._is_timed = not _is_clock_forbidden(process)
        self._start = self.look()
        self._start.take()
        self._ask(_LOOK)
        self._rules = [
            _Rule(ctypes.string_at(self._answer["functions"] + at * _FUNCTION.size, _FUNCTION.size))
            for at in range(self._answer["function_count"])
        ]
        os.register_at_fork(after_in_child=self._forked)

    def open(self) -> None:
        """Count from now on, in images that come later, too."""
        with self._lock:
            self._users += 1
            self._resident = _agent.resident_at()
            self._ask(_OPEN)

    def close(self) -> None:
        """Give all slots back, when nobody else counts."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._ask(_CLOSE)

    def look(self) -> Look:
        """Return what takes a look; nothing is read yet."""
        return Look(self)

    def refresh(self) -> None:
        """Have images counted that have come since, and slots that others have written."""
        with self._lock:
            self._ask(_OPEN)

    def between(self, first: Look, last: Look) -> dict[str, Group]:
        """Return the groups of what happened between two looks: those that have any."""
        groups: dict[str, Group] = {}
        passed = last.ticks - self._start.ticks
        rate = (last.ns - self._start.ns) / 1e9 / passed if passed > 0 else 0.0
        for at, numbers in _differences(_COUNT, first.counts, last.counts):
            if at < len(self._rules) and self._rules[at].group:
                rule = self._rules[at]
                self._add(groups.setdefault(rule.group, {}), rule, numbers, rate)
        for at, numbers in _differences(_WIRE, first.wires, last.wires):
            groups.setdefault(_GROUPS[at], {})["wire"] = self._wire(numbers, rate)
        return groups

    def _add(self, group: Group, rule: _Rule, numbers: tuple[int, ...], rate: float) -> None:
        calls, ticks, requested, actual, *kinds = numbers
        names = _RESPONSES if rule.answers else _TYPES
        if rule.query is not None:
            is_counted = rule.query in _NO_BYTES[1:]
            group["queries"] = group.get("queries", 0) + (sum(kinds) if is_counted else calls)
            types = group.setdefault("types", {})
            for kind, number in zip(names, kinds):
                if number and is_counted:
                    types[kind] = types.get(kind, 0) + number
            if not types:
                del group["types"]
        if rule.group not in {"fd", "memory", "memcache"} and self._is_timed:
            group["time"] = group.get("time", 0.0) + ticks * rate
        operation = group.setdefault(rule.operation, {"calls": 0})
        operation["calls"] += calls
        if rule.group != "memory" and self._is_timed:
            operation["time"] = operation.get("time", 0.0) + ticks * rate
        if rule.has_requested:
            operation["requested_bytes"] = operation.get("requested_bytes", 0) + requested
        if rule.has_actual:
            operation["actual_bytes"] = operation.get("actual_bytes", 0) + actual
        if rule.answers:
            responses = operation.setdefault("responses", {})
            for kind, number in zip(names, kinds):
                if number:
                    responses[kind] = responses.get(kind, 0) + number
        if rule.group == "memory" and kinds[0]:
            operation["unsized"] = operation.get("unsized", 0) + kinds[0]

    def _wire(self, numbers: tuple[int, ...], rate: float) -> Group:
        connects, sends, sent, receives, received, trips, ticks, _ = numbers
        wire: Group = {
            "connects": connects,
            "sends": sends,
            "sent_bytes": sent,
            "receives": receives,
            "received_bytes": received,
            "round_trips": trips,
        }
        if self._is_timed:
            wire["time"] = ticks * rate
        return wire

    def unseen(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Return what is not counted, by group, reason and library: the functions."""
        found: dict[str, dict[str, dict[str, list[str]]]] = {}
        lefts = ctypes.c_char * (self._answer["left_count"] * _LEFT.size)
        rows = bytes(lefts.from_address(self._answer["lefts"]))
        for number, why, path in _LEFT.iter_unpack(rows):
            rule = self._rules[number]
            image = os.fsdecode(path.split(b"\0")[0]) or sys.executable
            reason = found.setdefault(rule.group or "all", {}).setdefault(_WHYS[why], {})
            functions = reason.setdefault(os.path.basename(image), [])
            if rule.group and rule.name not in functions:
                functions.append(rule.name)
        if self._answer["left_more"]:
            found.setdefault("all", {})[f"{self._answer['left_more']} more slots"] = {}
        if self._answer["sqlites"] > 1:
            found.setdefault("sqlite3", {})[_SQLITES] = {}
        for module, group in _BY_ADDRESS.items():
            if module in sys.modules:
                found.setdefault(group, {}).setdefault("called by address", {})[module] = []
        have = self._groups_found()
        for module, group in _MODULES.items():
            if group not in have and module in sys.modules:
                reason = found.setdefault(group, {}).setdefault("no slot leads to its library", {})
                reason[module] = []
        if not self._is_timed:
            found.setdefault("all", {})["no times: the program has forbidden rdtsc"] = {}
        return found

    def _groups_found(self) -> set[str]:
        numbers = (ctypes.c_uint32 * len(self._rules)).from_address(self._answer["found"])
        return {rule.group for rule, number in zip(self._rules, numbers) if number}

    def _request(self, order: int, counts: int = 0, wires: int = 0) -> ctypes.Array[ctypes.c_char]:
        said = {
            "size": _TALLY.size,
            "order": order,
            "tables": _tables.FINGERPRINT,
            "images": self._images,
            "iterate": self._iterate,
            "usable": self._usable,
            "resident": self._resident,
            "counts": counts,
            "wires": wires,
            "count_room": _FUNCTIONS_MAX if counts else 0,
            "flags": 0 if self._is_timed else _NO_CLOCK,
        }
        words = [said.get(name, 0) for name in _tables.TALLY_FIELDS]
        return _Request.from_buffer_copy(_TALLY.pack(*words))

    def _ask(self, order: int) -> None:
        request = self._request(order)
        if self._function(ctypes.addressof(request)) != 0:
            raise CountingError(f"calls cannot be counted: {_agent.OTHER}")
        self._answer = _answer_of(request)

    def _forked(self) -> None:
        """Have nobody's counts in a forked child: whoever was interested is its parent's."""
        self._users = 0
        self._lock = allocate_lock()


def _answer_of(request: ctypes.Array[ctypes.c_char]) -> dict[str, int]:
    return dict(zip(_tables.TALLY_FIELDS, _TALLY.unpack(request)))


def _address(process: ctypes.PyDLL, name: str) -> int:
    try:
        return ctypes.cast(process[name], ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def _is_clock_forbidden(process: ctypes.PyDLL) -> bool:
    answer = ctypes.c_int(0)
    return (
        process.prctl(_PR_GET_TSC, ctypes.byref(answer), 0, 0, 0) == 0
        and answer.value == _TSC_FORBIDDEN
    )


def _differences(
    layout: struct.Struct, first: bytes, last: bytes
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the number of each struct that has changed, and by how much its fields have."""
    size = layout.size
    for start in range(0, len(first), size):
        if first[start : start + size] != last[start : start + size]:
            pairs = zip(layout.unpack_from(last, start), layout.unpack_from(first, start))
            yield start // size, tuple(new - old for new, old in pairs)
