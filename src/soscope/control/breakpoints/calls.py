# SPDX-License-Identifier: Apache-2.0
"""The open calls of a program that is traced by breakpoints, and how calls are recorded.

a call ─► its record, and a breakpoint at its return address
a return ─► its record; the calls that it has skipped (longjmp(3), exceptions) are dropped
"""

from __future__ import annotations

from soscope.control.breakpoints.capturing import Capturer, Kept
from soscope.control.breakpoints.images import ErrnoPlace
from soscope.control.breakpoints.program import ProgramRun
from soscope.control.breakpoints.watch import CallSpec
from soscope.entry.breakpoint import Frame, OpenFrames
from soscope.model.image import ERROR_LONG_NEGATIVE, ERROR_MINUS_ONE, ERROR_NONE, is_error
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.native.traps import Trap
    from soscope.entry.remote.stub import StoppedThread, WordMemory


# Breakpoints that a thread meets twice, because a signal came before their instruction ran.


class InterruptedPoints:
    """The breakpoints that were handled already, for threads that are in a signal handler.

    A handler may meet the same breakpoint further down the stack, which is another call. If a
    handler never returns, its breakpoint remains here until the thread is found elsewhere, as far
    up the stack.
    """

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, list[tuple[int, int]]] = {}

    def leave(self, thread: int, pc: int, sp: int) -> None:
        """Note that a signal comes before the instruction at a breakpoint has run."""
        self._places.setdefault(thread, []).append((pc, sp))

    def comes_back(self, thread: int, pc: int, sp: int) -> bool:
        """Return whether a thread is at a breakpoint that was handled already."""
        places = self._places.get(thread)
        while places and places[-1][1] <= sp:
            if places.pop() == (pc, sp):
                return True
        return False

    def inherit(self, other: InterruptedPoints, creator: int, thread: int) -> None:
        """Copy the entries of the creating thread to the first thread of its child."""
        places = other._places.get(creator)
        if places:
            self._places[thread] = list(places)

    def forget(self, thread: int) -> None:
        """Drop the data of a thread that has ended."""
        self._places.pop(thread, None)


# Open calls, and the records of their begins and ends.


class OpenCall:
    """An open call: its start, the time of calls inside it, and what its exit record needs.

    `number` is its slot's. `spec` is None if the return is awaited, but not recorded.
    `back` is the breakpoint at the return address in a native process. `is_inherited` is set if
    the process that has forked this one made the call.
    """

    __slots__ = ("back", "is_inherited", "kept", "nested", "number", "spec", "start")

    back: Trap

    def __init__(self, number: int, spec: CallSpec | None, start: int, kept: Kept | None) -> None:
        self.number = number
        self.spec = spec
        self.start = start
        self.kept = kept
        self.nested = 0
        self.is_inherited = False

    def inherited(self) -> OpenCall:
        """Return the same call for a process that was forked inside it."""
        call = OpenCall(self.number, self.spec, self.start, self.kept)
        call.is_inherited = True
        return call


class Calls:
    """The calls of one engine. `errno` is the errno of the thread that has stopped.

    `interrupted` are breakpoints that threads in signal handlers have met already. Subclasses put
    the breakpoints at return addresses.
    """

    def __init__(self, stub: StoppedThread, memory: WordMemory, run: ProgramRun) -> None:
        convention = run.traced.convention
        self.errno = ErrnoPlace(stub, memory, convention)
        self._capturer = Capturer(stub, memory, convention, self.errno, run.string_limit)
        self._recorder = run.recorder
        self._kind = run.selection.kind
        self._frames: OpenFrames[OpenCall] = OpenFrames(*convention.popped)
        self.interrupted = InterruptedPoints()

    # ---- breakpoints at return addresses ----

    def _has_point(self, return_addr: int) -> bool:
        """Return whether there is a breakpoint for returns at an address."""
        raise NotImplementedError

    def _sees_return(self, return_addr: int) -> bool:
        """Return whether the return of a call that is about to be recorded can be noticed."""
        raise NotImplementedError

    def _await_return(self, frame: Frame[OpenCall]) -> None:
        """Keep the breakpoint at the return address of a call for this call, too."""
        raise NotImplementedError

    def _drop(self, frame: Frame[OpenCall]) -> None:
        """Keep that breakpoint for this call no longer: the call has returned or is gone."""
        raise NotImplementedError

    # ---- calls ----

    def record_call(
        self, pid: int, tid: int, number: int, spec: CallSpec, sp: int, return_addr: int
    ) -> None:
        """Record a call that the stopped thread is about to make through slot `number`.

        `sp` is the stack pointer at the entry of the function.
        """
        recorder, kind = self._recorder, self._kind
        if kind == layout.INSTRUMENT_COUNT:
            recorder.count(number)
            return
        start = recorder.ticks()
        is_alone = spec.is_alone or not self._sees_return(return_addr)
        kept = None
        if kind == layout.INSTRUMENT_STATS:
            recorder.called(number)
        else:
            arg0, items, kept = self._capturer.entry(spec, sp)
            if not recorder.entry(
                pid,
                tid,
                number,
                sp=sp,
                ticks=start,
                return_addr=return_addr,
                arg0=arg0,
                items=items,
                is_alone=is_alone,
            ):
                return
        if not is_alone:
            self.enter(tid, return_addr, sp, OpenCall(number, spec, start, kept))

    def enter(self, tid: int, return_addr: int, sp: int, call: OpenCall) -> None:
        """Add an open call. It ends calls that the thread has left without a return."""
        frame = Frame(return_addr, sp, call)
        for gone in self._frames.enter(tid, frame):
            self._drop(gone)
        self._await_return(frame)

    def returned(self, pid: int, tid: int, addr: int, sp: int) -> None:
        """Record the returns of all calls that a thread of process `pid` has returned from.

        The thread is at `addr`, and `sp` is its stack pointer.
        """
        returned, gone = self._frames.leave(tid, addr, sp)
        for frame in (*returned, *gone):
            self._drop(frame)
        for frame in returned:
            if frame.call.spec is not None:
                self._record_return(pid, tid, frame.sp, frame.call, frame.call.spec)

    def _record_return(self, pid: int, tid: int, sp: int, call: OpenCall, spec: CallSpec) -> None:
        recorder, rule = self._recorder, spec.function.error_rule
        now = recorder.ticks()
        ticks = max(now - call.start, 0)
        around = self._frames.around(tid)
        if around is not None:
            around.call.nested += ticks
        is_counted = self._kind == layout.INSTRUMENT_STATS
        if is_counted and call.is_inherited:
            return  # the process that made the call counts it
        result, failed = 0, False
        if rule != ERROR_NONE or not is_counted:
            is_signed = rule in (ERROR_MINUS_ONE, ERROR_LONG_NEGATIVE)
            result = self._capturer.result(spec.result, call.kept, is_signed=is_signed)
            failed = is_error(rule, result)
        if is_counted:
            recorder.returned(call.number, ticks, max(ticks - call.nested, 0), is_error=failed)
            return
        items = []
        if call.kept is not None:
            items = self._capturer.exit(spec, call.kept, result)
        recorder.exit(
            pid,
            tid,
            call.number,
            sp=sp,
            ticks=now,
            result=result,
            errno=self.errno.read() if failed else 0,
            items=items,
        )

    # ---- threads and processes ----

    def inherit(self, parent: Calls, creator: int, tid: int) -> None:
        """Copy the open calls of a creating thread to the first thread of its child.

        `parent` has the calls of the creating thread's process. If the child shares its memory,
        these are the same calls object.
        """
        self.errno.know(parent.errno)
        self.interrupted.inherit(parent.interrupted, creator, tid)
        for frame in parent._frames.open_of(creator):
            if self._has_point(frame.return_addr):
                self.enter(tid, frame.return_addr, frame.sp, frame.call.inherited())

    def forget(self, tid: int) -> None:
        """Drop the open calls of a thread that has ended."""
        self.interrupted.forget(tid)
        for frame in self._frames.forget(tid):
            self._drop(frame)
