# SPDX-License-Identifier: Apache-2.0
"""Calls that have not returned yet, each known by thread, return address and stack pointer.

Stacks grow down. If a return leaves frames below it, their calls are gone: longjmp(3) or an
exception has skipped them.
"""

from __future__ import annotations

from typing import Generic, TypeVar

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
        """Return the calls that have returned to `addr`, and those that are gone: newest first.

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
        """Drop the calls of a thread. Return those that were open, the newest first."""
        return self._stacks.pop(thread, [])[::-1]

    def clear(self) -> list[Frame[_T]]:
        """Drop all calls. Return those that were open."""
        stacks, self._stacks = self._stacks, {}
        return [frame for stack in stacks.values() for frame in stack]
