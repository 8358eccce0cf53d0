# SPDX-License-Identifier: Apache-2.0
"""Pairing of exits with calls: the rules, applied to one event after the other.

A call is identified by its thread, its slot and `sp`: the low half of the address of its return
address. Stacks grow down. So when something happens at an `sp`, every call of that stack with a
lower one is over, whether or not an exit was seen: it was unwound, by an exception or longjmp. At
the same `sp` there are several calls only if one has tail-called the next.

A thread can have several stacks (coroutines, signal stacks). Addresses more than 1 MiB from all
known addresses of a stack are another stack. Small coroutine stacks that are side by side look
like one. If a call that was taken for unwound returns after all, it counts as returned.
Coroutines can continue in another thread. A forked child returns from calls that its parent made,
though the parent may have returned from them long before; until then the child's own calls are
inside of them. setjmp returns again and again.

`columns` applies the same rules to arrays. A test compares both.
"""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

REACH = 1 << 20  # bytes between addresses of one stack

# How `leave` has found the call.
OWN = 1  # open in this thread: its return
REVIVED = 2  # a call that was taken for unwound
MOVED = 3  # open in another thread of the process
AGAIN = 4  # a call that has returned before (setjmp)
INHERITED = 5  # open in the parent when that forked this process


class OpenCall:
    """A call, the `number`th of all.

    `payload`, `overhead` and `done` belong to the users of this module, which set them.
    """

    __slots__ = ("done", "holes", "number", "overhead", "payload", "slot", "sp", "thread", "tsc")

    def __init__(self, thread: PairedThread, slot: int, sp: int, tsc: int, number: int) -> None:
        self.thread = thread
        self.number = number
        self.slot = slot
        self.sp = sp
        self.tsc = tsc
        self.payload: Any = None
        self.overhead = 0  # ticks that the agent took in its thread before
        self.done: int | None = None  # ns of calls that had returned before: see `selftimes`
        self.holes = thread.holes

    @property
    def may_be_lost(self) -> bool:
        """Return whether events of its thread were lost since it began."""
        return self.holes != self.thread.holes


class _Stack:
    __slots__ = ("calls", "high", "low")

    def __init__(self, sp: int) -> None:
        self.low = self.high = sp
        self.calls: list[OpenCall] = []  # outermost first, so sp never grows


class PairedThread:
    """One thread of one program, with its stacks. `holes` counts losses in its stream."""

    __slots__ = ("_bounds", "_stacks", "again", "current", "holes", "key", "unwound")

    def __init__(self, key: tuple[int, int, int]) -> None:
        self.key = key  # program, pid, tid
        self.holes = 0
        self._stacks: list[_Stack] = []  # sorted by address
        self._bounds: list[int] = []  # lowest `sp` of each stack
        self.current: _Stack | None = None
        self.unwound: dict[int, list[OpenCall]] = {}  # by sp: calls that may still return
        self.again: dict[tuple[int, int], OpenCall] = {}  # by sp and slot: may return again

    def stack(self, sp: int) -> _Stack:
        """Return the stack that contains `sp`."""
        stack = self.current
        if stack is not None and stack.low <= sp <= stack.high:
            return stack
        at = bisect_right(self._bounds, sp) - 1
        below = self._stacks[at] if at >= 0 else None
        above = self._stacks[at + 1] if at + 1 < len(self._stacks) else None
        under = max(sp - below.high, 0) if below is not None else REACH + 1
        over = above.low - sp if above is not None else REACH + 1
        if below is not None and under <= REACH and under <= over:
            below.high = max(below.high, sp)
            self.current = below
            return below
        if above is not None and over <= REACH:
            above.low = self._bounds[at + 1] = sp
            self.current = above
            return above
        stack = _Stack(sp)
        self._stacks.insert(at + 1, stack)
        self._bounds.insert(at + 1, sp)
        self.current = stack
        return stack

    def bounds(self) -> list[tuple[int, int]]:
        """Return the lowest and the highest known `sp` of each stack, by address."""
        return [(stack.low, stack.high) for stack in self._stacks]

    def cover(self, low: int, high: int) -> list[OpenCall]:
        """Extend the one stack in [low, high] to this range, and return its open calls."""
        at = bisect_right(self._bounds, high) - 1
        if at < 0 or self._bounds[at] < low:
            at += 1
            self._stacks.insert(at, _Stack(low))
            self._bounds.insert(at, low)
        stack = self._stacks[at]
        stack.low = self._bounds[at] = low
        stack.high = high
        self.current = stack
        return stack.calls

    def within(self, low: int, high: int) -> list[OpenCall]:
        """Return the open calls of the one stack in [low, high], outermost first."""
        at = bisect_right(self._bounds, high) - 1
        return list(self._stacks[at].calls) if at >= 0 and self._bounds[at] >= low else []

    def took(self, tsc: int, ticks: int) -> None:
        """Count time that the agent took at `tsc` as taken before the calls that began later."""
        for stack in self._stacks:
            for call in reversed(stack.calls):
                if call.tsc <= tsc:
                    break
                call.overhead += ticks

    def _calls(self, sp: int) -> list[OpenCall]:
        """Return the open calls of the stack that contains `sp`."""
        at = bisect_right(self._bounds, sp) - 1
        if at < 0 or self._stacks[at].high < sp:
            return []
        return self._stacks[at].calls

    def find(self, sp: int, slot: int) -> OpenCall | None:
        """Return the innermost open call of `slot` at `sp`."""
        for call in reversed(self._calls(sp)):
            if call.sp > sp:
                break
            if call.sp == sp and call.slot == slot:
                return call
        return None

    def take(self, call: OpenCall) -> None:
        """Remove an open call from its stack, at any place."""
        self._calls(call.sp).remove(call)

    def open(self) -> list[OpenCall]:
        """Return all open calls, innermost first."""
        return [call for stack in self._stacks for call in reversed(stack.calls)]

    def depths(self) -> list[list[int]]:
        """Return the `sp` of the open calls of each stack that has any, outermost first."""
        return [[call.sp for call in stack.calls] for stack in self._stacks if stack.calls]

    def close(self) -> list[OpenCall]:
        """Remove all open calls from the stacks, and return them, innermost first."""
        calls = self.open()
        for stack in self._stacks:
            stack.calls.clear()
        return calls


class Pairing:
    """Pairs the entries and exits of all threads of all programs."""

    __slots__ = ("_around", "_entries", "_families", "_inherited")

    def __init__(self) -> None:
        self._entries = 0
        self._families: dict[int, dict[PairedThread, None]] = {}  # threads by program, in order
        # By pid: calls that the process can return from although another process made them.
        self._inherited: dict[int, dict[tuple[int, int, int], OpenCall]] = {}
        # By pid: the `sp` of inherited calls that its first thread may still be in, by stack.
        self._around: dict[int, list[list[int]]] = {}

    def thread(self, key: tuple[int, int, int]) -> PairedThread:
        """Return a new thread; `key` is its program, pid and tid."""
        thread = PairedThread(key)
        self._families.setdefault(key[0], {})[thread] = None
        return thread

    def end(self, thread: PairedThread) -> list[OpenCall]:
        """End all calls of a thread that has ended. Return them, and forget the thread."""
        family = self._families.get(thread.key[0], {})
        family.pop(thread, None)
        if not family:
            self._families.pop(thread.key[0], None)
        return thread.close()

    def has_elsewhere(self, thread: PairedThread, slot: int, sp: int) -> bool:
        """Return whether another thread has an open call of `slot` at `sp`."""
        family = self._families.get(thread.key[0], {})
        return any(other is not thread and other.find(sp, slot) is not None for other in family)

    def fork(self, parent: int, child: int) -> None:
        """Process that `parent` has made a copy of itself, `child`."""
        calls: dict[tuple[int, int, int], OpenCall] = {}
        calls.update(self._inherited.get(parent, {}))
        around = [list(stack) for stack in self._around.get(parent, ())]
        for program, family in self._families.items():
            for thread in family:
                if thread.key[1] == parent:
                    around += thread.depths()
                    for call in (*thread.again.values(), *reversed(thread.open())):
                        calls[program, call.slot, call.sp] = call
        self._inherited[child] = calls
        self._around.pop(child, None)
        if around:
            self._around[child] = around

    def forget(self, pid: int) -> None:
        """Process that a process has ended or executed another program."""
        self._inherited.pop(pid, None)
        self._around.pop(pid, None)

    def enter(
        self, thread: PairedThread, slot: int, sp: int, tsc: int, *, tail: bool, returns: bool
    ) -> tuple[OpenCall, int, list[OpenCall], OpenCall | None]:
        """Begin a call.

        With `tail`, it was tail-called by a hooked call at the same `sp`. With `returns`, its
        exit will be seen. Return the call, its depth, the calls that are over without an exit
        (innermost first), and the call that tail-called it, if known.
        """
        calls = thread.stack(sp).calls
        over: list[OpenCall] = []
        while calls and calls[-1].sp < sp:
            over.append(self._unwind(calls.pop()))
        if not tail:
            # this entry's return address has overwritten theirs
            while calls and calls[-1].sp == sp:
                over.append(calls.pop())
        if thread.unwound:
            thread.unwound.pop(sp, None)
        depth = len(calls)
        if self._around:
            depth += self._depth_around(thread, sp if tail else sp + 1)
        before = calls[-1] if calls and calls[-1].sp == sp else None
        self._entries += 1
        call = OpenCall(thread, slot, sp, tsc, self._entries)
        if returns:
            calls.append(call)
        return call, depth, over, before

    def leave(
        self, thread: PairedThread, slot: int, sp: int, *, twice: bool
    ) -> tuple[OpenCall | None, int, list[OpenCall]]:
        """End a call. Return it, how it was found, and the calls that are over with it.

        With `twice`, the function may return again. The call is None if its entry is missing.
        """
        calls = thread.stack(sp).calls
        over: list[OpenCall] = []
        while calls and calls[-1].sp < sp:
            over.append(self._unwind(calls.pop()))
        for index in range(len(calls) - 1, -1, -1):
            call = calls[index]
            if call.sp != sp:
                break
            if call.slot == slot:
                over += [self._unwind(later) for later in reversed(calls[index + 1 :])]
                del calls[index:]
                if twice:
                    thread.again[sp, slot] = call
                return call, OWN, over
        known, how = self._search(thread, slot, sp, twice=twice)
        if how == INHERITED and self._around:
            self._depth_around(thread, sp + 1)
        return known, how, over

    def gap(self, thread: PairedThread) -> tuple[int, int, int] | None:
        """Return the lowest and highest `sp` at which calls do not affect others, and their depth.

        A call there that returns before anything else happens leaves everything as it was, unless
        a call was `unwound` at its `sp`. Return None if there is no stack yet, or if depths have
        to be computed.
        """
        stack = thread.current
        if stack is None or thread.key[1] in self._around:
            return None
        high = min(stack.high, stack.calls[-1].sp - 1) if stack.calls else stack.high
        return stack.low, high, len(stack.calls)

    def _depth_around(self, thread: PairedThread, end: int) -> int:
        """Count the calls of the parent that a thread is inside of. Those below `end` are over.

        Only the first thread of a forked child is inside of any, as it is a copy of the thread
        that forked. They are in the stack whose innermost call is nearest.
        """
        _, pid, tid = thread.key
        stacks = self._around.get(pid) if pid == tid else None
        if stacks is None:
            return 0
        near = [stack for stack in stacks if stack[-1] - REACH <= end <= stack[0] + REACH]
        if not near:
            return 0
        stack = min(near, key=lambda edges: max(edges[-1] - end, end - edges[0]))
        while stack and stack[-1] < end:
            stack.pop()
        if not stack:
            stacks.remove(stack)
            if not stacks:
                del self._around[pid]
        return len(stack)

    def _unwind(self, call: OpenCall) -> OpenCall:
        call.thread.unwound.setdefault(call.sp, []).append(call)
        return call

    def _search(
        self, thread: PairedThread, slot: int, sp: int, *, twice: bool
    ) -> tuple[OpenCall | None, int]:
        if twice and (sp, slot) in thread.again:
            return thread.again[sp, slot], AGAIN
        waiting = thread.unwound.get(sp, [])  # innermost first
        for index, unwound in enumerate(waiting):
            if unwound.slot == slot:
                return waiting.pop(index), REVIVED
        program, pid, _ = thread.key
        family = self._families.get(program, {})
        calls = [call for other in family if (call := other.find(sp, slot)) is not None]
        moved = [call for call in calls if call.thread.key[1] == pid]
        if moved:
            latest = max(moved, key=_number)
            latest.thread.take(latest)
            return latest, MOVED
        inherited = self._inherited.get(pid)
        if inherited is not None:
            call = inherited.get((program, slot, sp))
            return call, INHERITED if call is not None else 0
        if calls:  # the fork was not recorded
            return max(calls, key=_number), INHERITED
        return None, 0


def _number(call: OpenCall) -> int:
    return call.number
