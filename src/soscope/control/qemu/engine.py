# SPDX-License-Identifier: Apache-2.0
"""The engine of an emulated program: it handles each stop.

    the loader's event ─► images, slots          a fault at an address of ours ─► a call
    the first code of an image ─► its slots      a return address ─► a return

The emulator's stub reports one stopped thread while the others run on, so their stops would be
lost. So before a second thread begins, threads are made to enter the stub one by one
(`StopSerializer`). If that cannot be done, the program goes on untraced from there on.
"""

from __future__ import annotations

import os
import time
from errno import ENOTSUP

from soscope.binfmt.isa import part
from soscope.control.breakpoints import layouts, values, watch
from soscope.control.breakpoints.calls import Calls, OpenCall
from soscope.control.breakpoints.hooking import ImageHooks
from soscope.control.breakpoints.images import GuestMemory
from soscope.control.breakpoints.program import Company
from soscope.control.breakpoints.watch import Armed, CallSpec, CallWatch, EntryPoints
from soscope.control.outcome import EngineVerdict
from soscope.control.qemu.program import RemoteRun
from soscope.entry.breakpoint import Frame, Points
from soscope.entry.remote import packets
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.packets import RemoteStop
from soscope.entry.remote.qemu import StopSerializer
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Handle the program's own faults, in an engine whose calls are faults, too.

IN_HANDLERS = "calls in handlers of SIGSEGV were not seen, nor calls of other threads meanwhile"
_LEAVE = ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk")


class OwnFaults:
    """Restores the slots while the program handles a fault of its own.

    Its handler runs with SIGSEGV blocked. A call that faults there would end the program or
    remove the handler, because a blocked fault is not delivered to the handler. The handler is
    over when its thread comes back to the faulting instruction, or leaves by longjmp.
    `any_survived` is set if the program has gone on after such a fault.
    """

    __slots__ = ("_hooks", "_memory", "_points", "_slots", "_waiting", "any_survived")

    def __init__(
        self, slots: CallWatch, points: Points, hooks: ImageHooks, memory: GuestMemory
    ) -> None:
        self._slots = slots
        self._points = points
        self._hooks = hooks
        self._memory = memory
        self._waiting: set[int] = set()
        self.any_survived = False

    def begin(self, pc: int) -> None:
        """Prepare for the handler of a fault of the instruction at `pc`."""
        if not self._slots.faults or self._waiting:
            return
        self._slots.give_back()
        places = self._hooks.places_of(_LEAVE)
        if self._memory.word(pc):  # else pc is no code, and the handler cannot return
            places.add(pc)
        for place in places:
            self._points.want(place)
        self._waiting = places

    def at_point(self, pc: int, *, is_stopped: bool) -> None:
        """Note a thread at a breakpoint. If its handler is over, make calls fault again."""
        if pc in self._waiting:
            self.any_survived = True
            self._forget()
            if not is_stopped:
                self._slots.take_again()

    def ended(self, *, is_killed: bool) -> None:
        """Note that the program has ended, perhaps in a handler of its own fault."""
        self.any_survived |= bool(self._waiting) and not is_killed

    def _forget(self) -> None:
        for place in self._waiting:
            self._points.leave(place)
        self._waiting = set()


# Handle several threads of an emulated program: thread creation, and late stops.

_CLONE_THREAD = 0x10000  # <linux/sched.h>
_FLAGS = 2  # index of an argument of clone(2)


class LateStops:
    """Removed breakpoints at which a thread may have stopped while they were in place.

    Such a thread waits for its turn to report the stop. If it stops there once more, the trap is
    the program's own.
    """

    __slots__ = ("_gone", "_heard", "_now")

    def __init__(self) -> None:
        self._gone: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self._now = 0

    def gone(self, addr: int) -> None:
        """Note that the breakpoint at an address was removed."""
        self._now += 1
        self._gone[addr] = self._now

    def is_late(self, tid: int, addr: int) -> bool:
        """Return whether a breakpoint was at `addr` at the thread's last report."""
        return self._gone.get(addr, 0) > self._heard.get(tid, 0)

    def heard(self, tid: int) -> None:
        """Note that a thread has reported its stop."""
        self._heard[tid] = self._now

    def forget(self, tid: int) -> None:
        """Drop the data of a thread that has ended."""
        self._heard.pop(tid, None)


def makes_thread(stub: RemoteStub, memory: GuestMemory, convention: Convention, sp: int) -> bool:
    """Return whether a call of clone(3), about to begin, will make a thread."""
    reader = values.Reader(stub, memory, convention, sp)
    reader.take([layouts.WORD] * (_FLAGS + 1))
    return bool(reader.taken.words[_FLAGS] & _CLONE_THREAD)


def closes_socket(stub: RemoteStub, memory: GuestMemory, convention: Convention, sp: int) -> bool:
    """Return whether a call of closefrom(3), about to begin, will close a socket.

    The emulator's own sockets are among them, at numbers that the program does not know.
    """
    reader = values.Reader(stub, memory, convention, sp)
    reader.take([layouts.WORD])
    first = reader.taken.words[0] & 0xFFFF_FFFF
    folder = f"/proc/{memory.pid}/fd"
    try:
        return any(
            int(name) >= first and os.readlink(f"{folder}/{name}").startswith("socket:")
            for name in os.listdir(folder)
        )
    except OSError:
        return True  # not known, so assume that it does


_SIGSEGV, _SIGTRAP = 11, 5
_START = 0.1  # seconds
_MOST_STEPS = 20_000  # steps of a resolver; some seven hundred are usual
_MOST_STOPS = 8  # stops of one instruction and its delay slot
_MANY = 500  # stops that are handled in one call

NOT_FURTHER = "a second thread was about to start: calls from there on were not seen"
CLOSES = "the program was about to close the stub's descriptor: calls from there on were not seen"
NEVER = "the loader has never said which images there are: nothing was seen"
EXECUTED = "the program has executed another program: calls from there on were not seen"
IN_CHILDREN = "calls of forked children were not seen"


def serve(
    stub: RemoteStub,
    handle: Callable[[RemoteStop], object],
    is_done: Callable[[], bool],
    seconds: float,
) -> tuple[bool, bool]:
    """Handle stops for `seconds`. Return whether there were any, and whether all have been handled.

    Raises RemoteError for an error of a stub that is still there.
    """
    end = time.monotonic() + seconds
    some = False
    for _ in range(_MANY):
        if is_done():
            break
        try:
            stop = stub.wait(max(end - time.monotonic(), 0.0))
            if stop is not None:
                some = True
                handle(stop)
        except RemoteError:
            if not stub.is_over:
                raise  # else the program was killed, executes another one or ends
            stop = None
        if stop is None:
            return some, True
    return some, False


class RemoteCalls(Calls):
    """The calls of one program behind a stub.

    A call without a `spec` makes a process. When it has returned, `slots` lead to soscope
    again.
    """

    def __init__(
        self,
        stub: RemoteStub,
        memory: GuestMemory,
        run: RemoteRun,
        points: Points,
        slots: CallWatch,
    ) -> None:
        super().__init__(stub, memory, run)
        self._points = points
        self._slots = slots

    def _has_point(self, return_addr: int) -> bool:
        return return_addr in self._points

    def _sees_return(self, return_addr: int) -> bool:
        return bool(return_addr)

    def _await_return(self, frame: Frame[OpenCall]) -> None:
        self._points.want(frame.return_addr)

    def _drop(self, frame: Frame[OpenCall]) -> None:
        self._points.leave(frame.return_addr)
        if frame.call.spec is None and not self._recorder.is_stopped:
            self._slots.take_again()

    def _record_return(self, pid: int, tid: int, sp: int, call: OpenCall, spec: CallSpec) -> None:
        if not self._recorder.is_stopped:
            super()._record_return(pid, tid, sp, call, spec)

    def copy_from(self, parent: RemoteCalls, creator: int, tid: int) -> None:
        """Take over from `parent` what the first thread of a forked process has.

        It is already known that the process has its parent's breakpoints. It has none of
        the parent's other threads.
        """
        self.inherit(parent, creator, tid)
        for thread in parent._frames.threads:
            for frame in parent._frames.open_of(thread):
                self._points.leave(frame.return_addr)

    def clear(self) -> None:
        """Drop all open calls. Their breakpoints are gone already."""
        self._frames.clear()


class Engine:
    """One program under its emulator.

    `is_over` is set if no more stops will come. Then `has_ended` is set if the program has ended,
    and `is_left` if it was detached.
    """

    def __init__(
        self,
        stub: RemoteStub,
        memory: GuestMemory,
        run: RemoteRun,
        company: Company,
    ) -> None:
        """Prepare the engine, while the program is at its loader's first instruction.

        Raises RemoteError.
        """
        self.is_over = self.has_ended = self.is_left = False
        self.run = run
        self._stub = stub
        self._memory = memory
        self._convention = run.traced.convention
        self._recorder = run.recorder
        self._company = company
        self._late = LateStops()
        self._points = Points(self._insert_point, self._remove_point)
        self._slots = self._make_watch()
        self._calls = RemoteCalls(stub, memory, run, self._points, self._slots)
        self._entries = self._make_entries()
        self._hooks = ImageHooks(
            memory,
            run,
            self._points,
            self._slots,
            self._calls.errno,
            self._entries,
            company.say,
            dynamic=run.dynamic,
            brk=run.brk,
            guarded=self._guarded,
        )
        self._delay = part(run.traced.arch, "delay")
        self._pid = memory.pid
        self._tid = 0
        self._faults = OwnFaults(self._slots, self._points, self._hooks, memory)
        self.serializer: StopSerializer | None = None  # set before a second thread begins

    def _make_watch(self) -> CallWatch:
        return self.run.make_watch(self._points)

    def _make_entries(self) -> EntryPoints:
        return EntryPoints(self.run.inside, self._convention, self._points)

    def _insert_point(self, addr: int) -> None:
        self._stub.insert(addr, self._convention.breakpoint)

    def _remove_point(self, addr: int) -> None:
        self._stub.remove(addr, self._convention.breakpoint)
        self._late.gone(addr)

    @property
    def _guarded(self) -> frozenset[str]:
        """Functions that make threads or processes unknown to the stub, or that end the stub."""
        return watch.THREADS | watch.PROCESSES | watch.CLOSERS

    # ---- the loop ----

    def go(self) -> None:
        """Let the program run until its first images are loaded and their slots are hooked."""
        self._stub.resume()
        while not (self._hooks.has_started or self.is_over):
            self.work(_START, until_started=True)

    def work(self, seconds: float, *, until_started: bool = False) -> bool:
        """Handle stops for `seconds`. Return whether there were any.

        With `until_started`, stop when the first images are loaded.
        """
        some, is_silent = serve(
            self._stub,
            self._handle_timed,
            lambda: self.is_over or (until_started and self._hooks.has_started),
            seconds,
        )
        if is_silent:
            self.is_over |= self._stub.is_over
            self.has_ended |= self.serializer is not None and self.serializer.is_ending
        return some

    def _handle_timed(self, stop: RemoteStop) -> None:
        begun = time.monotonic_ns()
        self._handle(stop)
        self.stood(time.monotonic_ns() - begun)

    def stood(self, ns: int) -> None:
        """Add the time for which a thread was stopped."""
        self._recorder.stood(ns)

    def _handle(self, stop: RemoteStop) -> None:
        if stop.kind != packets.SIGNAL:
            self.is_over = self.has_ended = True
            self._faults.ended(is_killed=stop.kind == packets.KILLED)
            if not self._hooks.has_started:
                self.is_left = True
                self._company.say(NEVER)
            return
        if self.serializer is not None:
            self._points.has_stopped()
            self._forget_ended(self.serializer)
        elif self._tid and stop.tid and stop.tid != self._tid:
            self._leave(stop, NOT_FURTHER)
            return
        self._tid = stop.tid or self._tid
        self._calls.errno.thread = self._tid
        pc = self._stub.get(self._convention.pc)
        is_late = self._late.is_late(self._tid, pc)
        self._late.heard(self._tid)
        armed = self._slots.at_fault(pc) if stop.number == _SIGSEGV else None
        if armed is not None:
            self._called(armed, pc)
        elif stop.number == _SIGTRAP and pc in self._points:
            self._at_point(pc)
        elif stop.number == _SIGTRAP and (is_late or not self._is_trap(stop)):
            self._stub.resume()
        else:
            if stop.number == _SIGSEGV:
                self._faults.begin(pc)
            self._company.signalled(self._pid, self._tid, packets.linux_signal(stop.number))
            self._stub.resume(stop.number)

    def _forget_ended(self, serializer: StopSerializer) -> None:
        """Drop the open calls of threads that have ended."""
        while serializer.ended:
            self.forget_thread(serializer.ended.pop())

    def forget_thread(self, tid: int) -> None:
        """Drop the data of a thread that has ended or has another memory by now."""
        self._late.forget(tid)
        self._calls.forget(tid)

    def _is_trap(self, stop: RemoteStop) -> bool:
        """Return whether a SIGTRAP comes from a breakpoint of the program itself."""
        return not stop.facts.keys() & {"swbreak", "hwbreak"}

    def _at_point(self, pc: int) -> None:
        self._faults.at_point(pc, is_stopped=self._recorder.is_stopped)
        if self._calls.interrupted.comes_back(self._tid, pc, self._stub.get(self._convention.sp)):
            self._go_on(pc)
            return
        if pc == self._hooks.brk:
            self._hooks.look_at_list()
        if pc in self._hooks.waiting:
            for image in self._hooks.waiting.pop(pc):
                self._hooks.hook(image, flags=0)
                self._points.leave(pc)
        self._calls.returned(self._pid, self._tid, pc, self._stub.get(self._convention.sp))
        if pc in self._hooks.guards and self._at_guard(pc):
            return
        armed = self._slots.at_point(pc) or self._hooks.entries.at_point(pc)
        if armed is None:
            self._go_on(pc)
        elif self._slots.enters(pc):
            self._enter_function(armed, pc)
        else:
            self._called(armed, pc)

    def _enter_function(self, armed: Armed, pc: int) -> None:
        """Record a call when its thread has reached the function."""
        if self._recorder.is_stopped and self._slots.retire():
            self._go_on(pc)
            return
        stop, at, has_run = self._run(pc)
        if stop.kind == packets.SIGNAL and has_run:
            self._note_call(armed, pc)
            self._slots.send(armed, pc)
            if stop.number == _SIGTRAP and at not in self._points:
                self._stub.resume()
                return
        elif stop.kind == packets.SIGNAL and stop.number == _SIGTRAP:
            self._stub.resume()  # the SIGTRAP of our single step must not reach the program
            return
        self._handle(stop)

    def _step_to(self, pc: int) -> tuple[RemoteStop, int]:
        """Run the instruction at `pc`. Return the stop and the new pc, 0 if the program ended."""
        stop = self._step(pc)
        return stop, self._stub.get(self._convention.pc) if stop.kind == packets.SIGNAL else 0

    def _go_on(self, pc: int) -> None:
        """Resume the thread from a breakpoint, which may still be in place."""
        if pc not in self._points:
            self._stub.resume()
            return
        sp = self._stub.get(self._convention.sp)
        stop, at, has_run = self._run(pc)
        if stop.kind == packets.SIGNAL and not has_run:
            self._calls.interrupted.leave(stop.tid or self._tid, pc, sp)
        if stop.kind == packets.SIGNAL and stop.number == _SIGTRAP and at not in self._points:
            self._stub.resume()
        else:
            self._handle(stop)

    def _run(self, pc: int) -> tuple[RemoteStop, int, bool]:
        """Run the instruction at a breakpoint, and its delay slot if it has one.

        Return the stop, the new pc (0 if the program has ended), and whether both instructions
        have run.
        """
        behind = 0
        if self._delay is not None and self._delay.is_delayed(self._memory.word(pc)):
            behind = pc + self._convention.code
        stop, at = self._step_to(pc)
        for _ in range(_MOST_STOPS):  # some stubs stop in between, and again for a pending signal
            if not behind or at != behind or stop.number != _SIGTRAP:
                break
            stop, at = self._step_to(at)
        return stop, at, at not in (pc, behind or pc)

    def _step(self, _pc: int) -> RemoteStop:
        """Run the instruction at a breakpoint."""
        return self._stub.step()

    # ---- calls ----

    def _called(self, armed: Armed, pc: int) -> None:
        """Record a call, and move its thread on to the called function."""
        if self._recorder.is_stopped and self._slots.retire():
            self._go_on(pc)
            return
        sp = self._stub.get(self._convention.sp)
        self._note_call(armed, pc)
        is_sent = not armed.runs_on and self._slots.send(armed, pc)
        if self._slots.is_followed:
            self._follow(sp, None if is_sent else pc)
        elif is_sent:
            self._stub.resume()
        else:
            self._go_on(pc)

    def _note_call(self, armed: Armed, pc: int) -> None:
        if armed.tells_thread:
            self._calls.errno.learn()
        sp = self._stub.get(self._convention.sp)
        return_addr = self._slots.return_addr(pc) or self._return_addr(sp)
        if armed.number >= 0 and not self._recorder.is_stopped:
            self._calls.record_call(self._pid, self._tid, armed.number, armed.spec, sp, return_addr)

    def _follow(self, sp: int, point: int | None) -> None:
        """Single-step the thread, from a breakpoint `point`, until the slots allow it to run."""
        stub, pc = self._stub, self._convention.pc
        stop = stub.step() if point is None else self._step(point)
        for _ in range(_MOST_STEPS):
            is_step = stop.kind == packets.SIGNAL and stop.number == _SIGTRAP
            is_done = is_step and self._slots.has_stepped()
            if is_done or not is_step or stub.get(pc) in self._points:
                break
            stop = stub.step()
        else:
            is_done = False
        if not is_done:
            self._slots.is_out_of_sight()
        if not is_step and stop.kind == packets.SIGNAL and stub.get(pc) == point:
            self._calls.interrupted.leave(stop.tid or self._tid, point, sp)
        if not is_step or stub.get(pc) in self._points:
            self._handle(stop)
        else:
            stub.resume()

    def _at_guard(self, pc: int) -> bool:
        """Prepare for another thread or process. Return whether the program was detached."""
        name = self._hooks.guards[pc]
        if name in watch.ENDS:
            if self.serializer is not None:
                self.serializer.shut()
            return False
        sp = self._stub.get(self._convention.sp)
        if name in watch.CLOSERS:
            if not closes_socket(self._stub, self._memory, self._convention, sp):
                return False
            self._give_all_back()
            self._company.say(CLOSES)
            self._detach()
            return True
        if name in watch.THREADS or (
            name in watch.CLONES and makes_thread(self._stub, self._memory, self._convention, sp)
        ):
            return not self._prepare_for_threads()
        if self.serializer is not None:
            return False  # the serializer reports each new process
        self._slots.give_back()
        if name != "syscall":  # syscall() seldom makes a process
            self._company.say(IN_CHILDREN)
        return_addr = self._return_addr(sp)
        if return_addr:
            self._calls.enter(self._tid, return_addr, sp, OpenCall(-1, None, 0, None))
        return False

    def _at_child(self, pid: int) -> None:
        """Restore the slots of a new process, because no stub reports its calls."""
        self._company.say(IN_CHILDREN)
        memory = self._memory
        try:
            child = GuestMemory(pid, memory.coding, memory.base)
        except RemoteError:
            return  # it was killed
        self._slots.give_back_in(child)
        child.close()

    def _prepare_for_threads(self) -> bool:
        """Prepare for several threads. If that is not possible, detach from the program."""
        if self.serializer is not None:
            return True
        try:
            if self._slots.for_one_thread:
                raise OSError(ENOTSUP, f"engine {self._slots.for_one_thread} is for one thread")
            self.serializer = StopSerializer(self._memory.pid, self._tid, self._at_child)
        except OSError as error:
            self._give_all_back()
            self._company.say(f"{NOT_FURTHER} ({(error.strerror or '').lower()})")
            self._detach()
            return False
        self._stub.turns = self.serializer
        self._points.is_sparing = True
        self._hooks.guard_ends()
        return True

    def _return_addr(self, sp: int) -> int:
        if not self._convention.returns:
            return self._memory.word(sp)
        return self._hooks.code(self._stub.get(self._convention.returns))

    # ---- the end ----

    def stop(self) -> None:
        """Stop noticing calls: restore the slots. Open calls still return."""
        self._slots.give_back()

    def unmatched(self) -> list[str]:
        """Return which functions were found in no image, and the remarks of the watch."""
        told = [IN_HANDLERS] if self._faults.any_survived else []
        return [*told, *self._entries.remarks(), *self._slots.remarks()]

    def remarks(self) -> list[str]:
        """Return remarks, at the end, on what was not seen of this process and of its company."""
        return [*self._company.said, *self.unmatched()]

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, or None if there is only one."""
        return self._slots.verdict()

    def executed(self) -> None:
        """Note that the process has executed another program, which no stub reports."""
        self.is_left = True
        self._company.say(EXECUTED)

    def _leave(self, stop: RemoteStop, why: str) -> None:
        """Detach from the program, at a stop of an unexpected thread."""
        pc = self._stub.get(self._convention.pc)
        armed = self._slots.at_fault(pc) if stop.number == _SIGSEGV else None
        if armed is not None:
            self._slots.send(armed, pc)
        self._give_all_back()
        self._company.say(why)
        self._detach()

    def _give_all_back(self) -> None:
        self._slots.give_back()
        self._points.clear()
        self._calls.clear()

    def _detach(self) -> None:
        self._stub.detach()
        self.is_over = self.is_left = True
