# SPDX-License-Identifier: Apache-2.0
"""Breakpoints with a count of their users, and calls that have not returned yet."""

from __future__ import annotations

from typing import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias


# Calls that have not returned yet, each known by thread, return address and stack pointer.
#
# Stacks grow down. If a return leaves frames below it, their calls are gone: longjmp(3) or an
# exception has skipped them.

_T = TypeVar("_T")


class Frame(Generic[_T]):
    """One call: its return address, the stack pointer at its entry, and the engine's `call`."""

    __slots__ = ("call", "return_addr", "sp")

    def __init__(self, return_addr: int, sp: int, call: _T) -> None:
        self.return_addr = return_addr
        self.sp = sp
        self.call = call


class OpenFrames(Generic[_T]):
    """The open calls of all threads. A return pops at least `least` and at most `most` bytes."""

    __slots__ = ("_least", "_most", "_stacks")

    def __init__(self, least: int = 0, most: int = 0) -> None:
        self._stacks: dict[int, list[Frame[_T]]] = {}
        self._least = least
        self._most = most

    def __len__(self) -> int:
        """Return the number of open calls."""
        return sum(map(len, self._stacks.values()))

    def enter(self, thread: int, frame: Frame[_T]) -> list[Frame[_T]]:
        """Add a new call. Return the calls that must be gone, the newest first."""
        stack = self._stacks.setdefault(thread, [])
        gone = []
        while stack and stack[-1].sp < frame.sp:
            gone.append(stack.pop())
        stack.append(frame)
        return gone

    def leave(self, thread: int, addr: int, sp: int) -> tuple[list[Frame[_T]], list[Frame[_T]]]:
        """Return the calls that have returned to `addr`, and lost calls, the newest first.

        `sp` is the stack pointer after the return. Several calls return at the same time if one
        was a tail call of the other.
        """
        stack = self._stacks.get(thread, [])
        returned, gone = [], []
        while stack:
            frame = stack[-1]
            popped = sp - frame.sp
            if frame.return_addr == addr and self._least <= popped <= self._most:
                returned.append(stack.pop())
            elif popped > self._most:
                gone.append(stack.pop())
            else:
                break
        return returned, gone

    @property
    def threads(self) -> list[int]:
        """The threads that have made calls."""
        return list(self._stacks)

    def open_of(self, thread: int) -> list[Frame[_T]]:
        """Return the open calls of a thread, the oldest first."""
        return list(self._stacks.get(thread, ()))

    def around(self, thread: int) -> Frame[_T] | None:
        """Return the innermost open call of a thread, None if there is none."""
        stack = self._stacks.get(thread)
        return stack[-1] if stack else None

    def forget(self, thread: int) -> list[Frame[_T]]:
        """Drop the calls of a thread. Return the open ones, the newest first."""
        return self._stacks.pop(thread, [])[::-1]

    def clear(self) -> list[Frame[_T]]:
        """Drop all calls. Return the open ones."""
        stacks, self._stacks = self._stacks, {}
        return [frame for stack in stacks.values() for frame in stack]


# Breakpoints with a count of their users: each is in place as long as it has users.
#
# If a change costs much (`is_sparing`), a breakpoint that comes back again and again is left in
# place for a while. Stops at it meanwhile are ignored.

Change: TypeAlias = "Callable[[int], object]"

_OFTEN = 8  # removals of a breakpoint before it is left in place
_MOST_SPARE = 16
_LONGEST_SPARE = 64  # stops


class Points:
    """Counts the users of each address, and calls `insert` and `remove` accordingly.

    `is_sparing` is set if a change costs much.
    """

    __slots__ = ("_counts", "_gone", "_insert", "_remove", "_spare", "_stops", "is_sparing")

    def __init__(self, insert: Change, remove: Change) -> None:
        self._counts: dict[int, int] = {}
        self._gone: dict[int, int] = {}  # number of removals
        self._spare: dict[int, int] = {}  # unused but in place: since which stop
        self._stops = 0
        self._insert = insert
        self._remove = remove
        self.is_sparing = False

    def __contains__(self, addr: int) -> bool:
        """Return whether a breakpoint is in place at the address."""
        return addr in self._counts or addr in self._spare

    def __len__(self) -> int:
        """Return the number of addresses with a breakpoint."""
        return len(self._counts) + len(self._spare)

    @property
    def addresses(self) -> list[int]:
        """The addresses of its breakpoints."""
        return list(self._counts)

    def want(self, addr: int) -> None:
        """Add a user of the breakpoint at an address."""
        count = self._counts.get(addr, 0)
        if not count and self._spare.pop(addr, None) is None:
            self._insert(addr)
        self._counts[addr] = count + 1

    def leave(self, addr: int) -> None:
        """Undo one `want`."""
        count = self._counts.get(addr, 0) - 1
        if count > 0:
            self._counts[addr] = count
        elif not count:
            del self._counts[addr]
            if self.is_sparing and self._gone.get(addr, 0) >= _OFTEN:
                self._spare[addr] = self._stops
            else:
                self._gone[addr] = self._gone.get(addr, 0) + 1
                self._remove(addr)

    def has_stopped(self) -> None:
        """Note a stop. Breakpoints that were unused for long are removed."""
        self._stops += 1
        if not self._spare:
            return
        oldest = next(iter(self._spare.values()))
        if len(self._spare) > _MOST_SPARE or self._stops - oldest > _LONGEST_SPARE:
            spare, self._spare = self._spare, {}
            for addr in spare:
                self._remove(addr)

    def know(self, other: Points) -> None:
        """Take over the breakpoints that a forked process has from its parent."""
        self._counts = dict(other._counts)
        self._spare = dict(other._spare)

    def lift(self) -> None:
        """Remove all breakpoints until `put_down`."""
        for addr in (*self._counts, *self._spare):
            self._remove(addr)

    def put_down(self) -> None:
        """Undo `lift`."""
        for addr in (*self._counts, *self._spare):
            self._insert(addr)

    def clear(self) -> None:
        """Remove all breakpoints for good."""
        places = [*self._counts, *self._spare]
        self._counts.clear()
        self._spare.clear()
        for addr in places:
            self._remove(addr)
