# SPDX-License-Identifier: Apache-2.0
"""The open calls of a native process, and breakpoints at functions' first instructions."""

from __future__ import annotations

from soscope.control.breakpoints.capturing import Capturer, Kept
from soscope.control.breakpoints.images import CalledSlot, ErrnoPlace, ForeignImage
from soscope.control.breakpoints.watch import Armed, EntryPoint, EntryPoints, Treatment
from soscope.control.native.images import NativeHooks
from soscope.entry.breakpoint import Frame, OpenFrames, Points
from soscope.entry.native.threads import NativeTask, NativeThreads
from soscope.entry.native.traps import Trap, Traps
from soscope.entry.remote.convention import Convention
from soscope.model.image import ERROR_LONG_NEGATIVE, ERROR_MINUS_ONE, ERROR_NONE, is_error
from soscope.wire import layout
from soscope.wire.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.native.machine import NativeMachine


# The open calls of a native process, and the records of their begins and ends.

_FAR = 1 << 64


class _OpenCall:
    """An open call: its start, the time of calls inside it, and what its exit record needs.

    `is_inherited` is set if the process that has forked this one made the call.
    """

    __slots__ = ("armed_number", "back", "is_inherited", "kept", "nested", "start", "treatment")

    def __init__(
        self, number: int, treatment: Treatment, back: Trap, start: int, kept: Kept | None
    ) -> None:
        self.armed_number = number
        self.treatment = treatment
        self.back = back
        self.start = start
        self.kept = kept
        self.nested = 0
        self.is_inherited = False

    def inherited(self, back: Trap) -> _OpenCall:
        """Return the same call for a process that was forked inside it."""
        call = _OpenCall(self.armed_number, self.treatment, back, self.start, self.kept)
        call.is_inherited = True
        return call


class NativeCalls:
    """The calls of one process. `unseen` counts those whose return has no breakpoint.

    `lifted` are children that make it necessary to keep all traps out of memory. With `follows`
    the calls of children that share the memory are recorded, too. `hooks` must be set first.
    """

    hooks: NativeHooks

    def __init__(
        self,
        threads: NativeThreads,
        traps: Traps,
        machine: NativeMachine,
        recorder: Recorder,
        kind: int,
        capturer: Capturer,
        errno: ErrnoPlace,
        lifted: set[int],
        *,
        follows: bool,
    ) -> None:
        self.unseen = 0
        self._follows = follows
        self._threads = threads
        self._traps = traps
        self._recorder = recorder
        self._kind = kind
        self._capturer = capturer
        self._errno = errno
        self._lifted = lifted
        self._sp = machine.sp
        self._frames: OpenFrames[_OpenCall] = OpenFrames(*machine.convention.popped)

    def forget(self, tid: int) -> None:
        """Drop the open calls of a thread that has ended."""
        self._drop(self._frames.leave(tid, -1, _FAR)[1])

    def called(self, tid: int, task: NativeTask, armed: Armed, return_addr: int) -> None:
        """Record a call that is about to be made by the thread whose registers were read."""
        if armed.number < 0 or (task.is_child and not self._follows):
            return
        treatment = armed.call
        assert isinstance(treatment, Treatment)
        self._record_call(tid, task, armed.number, treatment, return_addr)

    def _record_call(
        self, tid: int, task: NativeTask, number: int, treatment: Treatment, return_addr: int
    ) -> None:
        recorder, kind = self._recorder, self._kind
        if kind == layout.INSTRUMENT_COUNT:
            recorder.count(number)
            return
        sp = self._threads.values[self._sp]
        start = recorder.ticks()
        back = None
        if not treatment.is_alone:
            back = self._traps.at.get(return_addr)
            if back is None or not back.is_back:
                back = self._put_back(return_addr)
        kept = None
        if kind == layout.INSTRUMENT_STATS:
            recorder.called(number)
        else:
            arg0, items, kept = self._capturer.entry(
                treatment.function,
                treatment.passed,
                treatment.result,
                treatment.tail,
                sp,
                treatment.led,
                treatment.flags,
            )
            if not recorder.entry(
                task.pid,
                tid,
                number,
                sp=sp,
                ticks=start,
                return_addr=return_addr,
                arg0=arg0,
                items=items,
                is_alone=back is None,
            ):
                return
        if back is not None:
            back.open += 1
            call = _OpenCall(number, treatment, back, start, kept)
            gone = self._frames.enter(tid, Frame(return_addr, sp, call))
            if gone:
                self._drop(gone)

    def _put_back(self, return_addr: int) -> Trap | None:
        if self._lifted:
            return None
        if not self.hooks.is_code(return_addr):
            self.unseen += 1  # code made at run time, which may be moved
            return None
        back = self._traps.put_back(return_addr, busy_copies(self._threads))
        if back is None:
            self.unseen += 1
        return back

    @staticmethod
    def _drop(frames: list[Frame[_OpenCall]]) -> None:
        for frame in frames:
            frame.call.back.open -= 1

    def inherit(self, parent: NativeCalls, creator: int, tid: int) -> None:
        """Copy the open calls of a creating thread to the first thread of its child.

        `parent` has the calls of the creating thread's process. If the child shares its memory,
        these are the same calls object.
        """
        for frame in parent._frames.open_of(creator):
            back = self._traps.at.get(frame.return_addr)
            if back is not None and back.is_back:
                back.open += 1
                call = frame.call.inherited(back)
                self._frames.enter(tid, Frame(frame.return_addr, frame.sp, call))

    def returned(self, tid: int, pid: int, trap: Trap) -> None:
        """Record the returns of all calls that a thread of process `pid` has returned from."""
        returned, gone = self._frames.leave(tid, trap.addr, self._threads.values[self._sp])
        if gone:
            self._drop(gone)
        for frame in returned:
            trap.open -= 1
            self._record_return(tid, pid, frame)

    def _record_return(self, tid: int, pid: int, frame: Frame[_OpenCall]) -> None:
        recorder, call = self._recorder, frame.call
        treatment = call.treatment
        now = recorder.ticks()
        ticks = max(now - call.start, 0)
        around = self._frames.around(tid)
        if around is not None:
            around.call.nested += ticks
        number, rule = call.armed_number, treatment.function.error_rule
        is_counted = self._kind == layout.INSTRUMENT_STATS
        if is_counted and call.is_inherited:
            return  # the process that made the call counts it
        result, failed = 0, False
        if rule != ERROR_NONE or not is_counted:
            is_signed = rule in (ERROR_MINUS_ONE, ERROR_LONG_NEGATIVE)
            result = self._capturer.result(treatment.result, call.kept, is_signed=is_signed)
            failed = is_error(rule, result)
        if is_counted:
            recorder.returned(number, ticks, max(ticks - call.nested, 0), is_error=failed)
            return
        items = []
        if call.kept is not None:
            items = self._capturer.exit(
                treatment.function, call.kept, result, treatment.result, treatment.led
            )
        recorder.exit(
            pid,
            tid,
            number,
            sp=frame.sp,
            ticks=now,
            result=result,
            errno=self._errno.read() if failed else 0,
            items=items,
        )


def busy_copies(threads: NativeThreads) -> set[Trap]:
    """Return the traps whose displaced copies threads may be running."""
    return {task.inside for task in threads.tasks.values() if task.inside is not None}


# Functions inside an image of a native process: breakpoints at their first instructions.


class NativeEntries(EntryPoints):
    """The functions of one process that match `words`.

    `left` are functions that cannot have a breakpoint.
    """

    __slots__ = ("_threads", "_traps", "left")

    def __init__(
        self,
        words: list[str],
        convention: Convention,
        points: Points,
        traps: Traps,
        threads: NativeThreads,
    ) -> None:
        super().__init__(words, convention, points)
        self._traps = traps
        self._threads = threads
        self.left: list[str] = []

    def copy_for(self, traps: Traps, threads: NativeThreads) -> NativeEntries:
        """Return a copy for a forked process, whose traps are `traps`."""
        words = [word for word, _, _ in self._words]
        copied = NativeEntries(words, self._convention, self._points, traps, threads)
        copied.go_on_from(self)
        copied._at = dict(self._at)
        return copied

    def go_on_from(self, before: EntryPoints) -> None:
        """Share with `before` the lists of what was not seen and why, for all processes."""
        super().go_on_from(before)
        assert isinstance(before, NativeEntries)
        self.left = before.left

    def watch(self, slot: CalledSlot, image: ForeignImage, call: object, number: int) -> None:
        """Put a breakpoint at the first instruction of a function."""
        armed = self._at[slot.addr] = EntryPoint(slot, image, call)
        armed.number = number
        if self._traps.put_entry(slot.addr, armed, busy_copies(self._threads)) is None:
            self.left.append(slot.symbol)

    def remarks(self) -> list[str]:
        """Return which words matched no function, and which functions could not be seen."""
        what = "what it begins with must stay in place, so its calls were not seen"
        return super().remarks() + [f"-x {symbol}: {what}" for symbol in self.left]

    def forget(self, image: ForeignImage) -> None:
        """Drop the functions of an image that was unloaded."""
        for addr, armed in list(self._at.items()):
            if armed.image is image:
                del self._at[addr]
                self._traps.take_entry(addr)
