# SPDX-License-Identifier: Apache-2.0
"""Objects that the program has made, by type, whether they are alive or not."""

from __future__ import annotations

import ctypes
import sys
from _thread import allocate_lock

from soscope_mem import _agent, _count, _lines, _spans, _tables, _tally
from soscope_mem._agent import Agent, CountingError
from soscope_mem._origins import Origins

TYPE_CHECKING = False
if TYPE_CHECKING:
    Made = dict[tuple[int, int], int]  # by address of the type, and origin

_OWN_FILES = {
    code.co_filename
    for code in (
        Agent.ask.__code__,
        _agent.resident_at.__code__,
        _count.start.__code__,
        _lines.LineTable.line.__code__,
        Origins.place.__code__,
        _spans.decorated.__code__,
        _tally.Tally.look.__code__,
    )
}


class MadeObjects:
    """What the agent is told of new objects; `open` and `close` come in pairs."""

    def __init__(self) -> None:
        """Find the agent. Raises CountingError where objects cannot be counted."""
        self._agent = Agent()
        self._lock = allocate_lock()
        self._users = 0
        self._origins = Origins()

    def open(self) -> None:
        """Count from now on. Raises CountingError."""
        with self._lock:
            if not self._users:
                answer = self._agent.ask(_tables.MADE_BEGIN)
                if answer["state"] != _tables.COUNTING:
                    raise CountingError("objects cannot be counted: the interpreter was not found")
            self._users += 1

    def close(self) -> None:
        """Count no more, when nobody else does."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._agent.ask(_tables.MADE_END)

    def look(self) -> Made:
        """Return what was made so far. Raises CountingError."""
        rows = _count._ROW
        answer = self._agent.ask(_tables.MADE_LOOK)
        if answer["state"] != _tables.COUNTING:
            raise CountingError("objects are not counted any more: somebody else has ended it")
        if answer["lost"]:
            raise CountingError(f"there was no room for {answer['lost']} objects")
        # string_at is Python's code, and makes objects of its own
        size = answer["row_count"] * rows.size
        data = bytes((ctypes.c_char * size).from_address(answer["rows"]))
        return {(kind, origin): count for kind, count, origin, _ in rows.iter_unpack(data)}

    def between(self, first: Made, last: Made) -> dict[str, int]:
        """Return how many were made between two looks, by type; ours are left out."""
        origins = self._origins.hear(self._agent.ask(_tables.MADE_LOOK))
        types: dict[str, int] = {}
        for key, count in last.items():
            made = count - first.get(key, 0)
            if made and origins.place(key[1])[0] not in _OWN_FILES:
                name = _count._name_of(ctypes.cast(key[0], ctypes.py_object).value)
                types[name] = types.get(name, 0) + made
        origins.rest()
        return types

    def forked(self) -> None:
        """Have nobody interested in a forked child."""
        self._lock = allocate_lock()
        if self._users:
            self._users = 0
            self._agent.ask(_tables.MADE_END)


def own(file: str) -> None:
    """Leave out what the code of a file makes."""
    _OWN_FILES.add(sys.intern(file))


own(own.__code__.co_filename)
