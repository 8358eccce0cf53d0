# SPDX-License-Identifier: Apache-2.0
"""Supervise a launched program: wait for it, pass on signals, and stop when it stops.

The loop sleeps in sigtimedwait(2). SIGCHLD wakes it, so that a signal of the target is passed on
at once. Signals that users send to soscope arrive in the same way. The target has got signals to
the whole process group already, from a terminal or another sender (see `witness`).
"""

from __future__ import annotations

import os
import time
from _thread import get_native_id

from soscope.control.command import ExitStatus, program_at_end
from soscope.control.program import Observation, Program
from soscope.control.signals import ENDING, GRACE, OWN_SIGNALS, PASSED_ON, Sending, Signals, Witness
from soscope.control.tracer import AgentSource, Tracer
from soscope.entry import ptrace
from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.status import heeded, signal
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

_PAUSE = 0.05  # seconds between ticks that request no other pause
_TURN = 0.02  # seconds of events after which the tick gets its turn
_LOOK = 0.1  # seconds between checks which program a detached target runs
_WAIT = ptrace.WALL | os.WNOHANG | os.WUNTRACED

Tick: TypeAlias = "Callable[[], float | None]"


class Target(Observation):
    """A program that `launch` started.

    `pid` is its process. `programs` are the programs that it and its children executed, and the
    first one is the command. Without `follow` the others are listed without being observed.
    `exit` is None until the process has ended.
    """

    def __init__(
        self,
        tracer: Tracer,
        agents: AgentSource,
        signals: Signals,
        *,
        follow: bool,
        threads: bool = False,
    ) -> None:
        self._tracer = tracer
        self._agents = agents
        self._signals = signals
        self._follow = follow
        self._is_one = not follow and not threads  # only the first thread is traced
        self._terminal = _terminal()
        self._witness: Witness | None = None
        self._unsure: dict[int, Sending] = {}  # to pass on unless the group gets them
        self._end_asked = False  # whether a signal from a process asks to end
        self._end_forced = False
        self._next_look = 0.0
        self._file: tuple[int, int] | None = None  # (device, inode) of its program, last seen
        self.pid = tracer.pid

    @property
    def programs(self) -> list[Program]:
        """The programs under observation, in the order of their exec."""
        return self._tracer.programs

    @property
    def exit(self) -> ExitStatus | None:
        """The exit status of the target, None while it lives."""
        return self._tracer.exit

    def await_exec(self, pid: int, name: int) -> None:
        """Trace process `pid`, which is about to execute another program (see `Tracer`)."""
        self._tracer.await_exec(pid, name)

    # ---- the loop ----

    def wait_ready(self) -> None:
        """Wait until the target runs its own code or has ended."""
        while not self._tracer.is_ready:
            if self._tracer.job_stop:
                self._stop_too()
            if not self._take_events():
                self._sleep(_PAUSE)
        # If a loader was told to start the program, this is the loader's file.
        self._file = status.program_file(self.pid)

    def run(self, tick: Tick | None = None) -> ExitStatus:
        """Supervise the target until it has ended, and with `follow` its children, too.

        `tick` is called repeatedly, for the last time after the end. It returns how many seconds
        may pass until the next call (None: some milliseconds). If it raises an exception, the
        target goes on untraced. This must be called in the thread that launched the target.
        """
        due = 0.0
        try:
            while not self._is_over():
                if self._take_events():
                    if time.monotonic() < due:
                        continue
                    self._sleep(0)  # many events: still take signals to soscope
                if self._tracer.job_stop:
                    self._stop_too()
                self._tracer.take_ends()
                pause = tick() if tick is not None else None
                due = time.monotonic() + _TURN
                # The tick may have taken long, so a thread may be waiting by now.
                if not self._take_events():
                    self._sleep(_PAUSE if pause is None else pause)
                    self._look_at_program()
            if self._witness is not None:
                self._witness.dismiss()
            if tick is not None:
                tick()
        finally:
            self.close()
        assert self._tracer.exit is not None
        return self._tracer.exit

    def attend(self) -> bool:
        """Do the urgent work while the tick waits for a reader of its output.

        Return False if the tick should not wait any longer, because a signal asks soscope to end.
        """
        if self._tracer.job_stop:
            self._stop_too()
        self._take_events()
        self._sleep(0)
        return not self._end_forced and not (self._end_asked and self._is_over())

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether a signal asks soscope to end, so that it waits for no reader any more.

        Only signals after the end of the target count, as earlier ones were passed on to it.
        """
        return self._end_forced or self._end_asked

    def close(self) -> None:
        """Detach from all threads. A target that still lives runs on. May be called twice.

        Signals that are sent to soscope from here on stay pending until `leave`.
        """
        self._pass_on(float("inf"))
        self._tracer.let_go()
        self._agents.close()
        self.forget_group()
        self._signals.drop()  # signals during the target's life were meant for the target

    def _is_over(self) -> bool:
        if self._tracer.exit is None:
            return False
        if not self._follow:
            return True
        self._tracer.take_ends()
        # The end of a thread may not be reported if its process ends at the same time.
        for tid, task in list(self._tracer.tasks.items()):
            if not os.path.exists(f"/proc/{task.pid}/task/{tid}"):
                del self._tracer.tasks[tid]
        return not self._tracer.tasks

    def _take_events(self) -> bool:
        """Handle pending wait statuses for a moment. Return whether there was one."""
        end = time.monotonic() + _TURN
        has_handled = self._tracer.serve()
        while time.monotonic() < end:
            event = self._next_event()
            if event is None:
                break
            has_handled = True
            self._tracer.handle(*event)
        return has_handled

    def _next_event(self) -> tuple[int, int] | None:
        if self._is_one:
            if self._tracer.exit is not None:
                return None
            if not _has_news(self.pid):
                return None  # not reaped yet, as `_look_at_end` must come first
            self._look_at_end()
            self._tracer.tell_news(self.pid)
            return _poll(self.pid)
        # Look which child has a status without reaping it: a caller of this library may have other
        # children.
        try:
            ready = os.waitid(
                os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG | ptrace.WALL
            )
        except ChildProcessError:
            return None
        if ready is None:
            return None
        tid = ready.si_pid
        self._tracer.tell_news(tid)
        if tid in self._tracer.tasks or _is_our_tracee(tid):
            return _poll(tid)
        for tid in list(self._tracer.tasks):
            event = _poll(tid)
            if event is not None:
                return event
        return None

    # ---- signals to soscope ----

    def _sleep(self, seconds: float) -> None:
        """Wait for a signal and take all pending ones, but only for a moment, as more may come."""
        if self._unsure:
            seconds = min(seconds, self._pass_on(time.monotonic()))
        received = signal.sigtimedwait(OWN_SIGNALS, max(seconds, 0.0))
        end = time.monotonic() + _TURN
        while received is not None:
            self._take_signal(received.si_signo, received.si_code, received.si_pid)
            if time.monotonic() >= end:
                break
            received = signal.sigtimedwait(OWN_SIGNALS, 0)

    def _pass_on(self, now: float) -> float:
        """Pass on signals that did not go to the whole group.

        Return the seconds to the next check.
        """
        for number, sending in list(self._unsure.items()):
            is_over = sending.is_over(now)  # first, as its sender may just have signalled the group
            if self._witness is not None and self._witness.has_seen(number):
                del self._unsure[number]
            elif is_over:
                del self._unsure[number]
                self._send(number)
        return min((sending.due for sending in self._unsure.values()), default=now + GRACE) - now

    def watch_group(self) -> None:
        """Detect from here on which signals are sent to the whole process group.

        In a thread that is not the main thread this does nothing, as signals are not soscope's to
        take.
        """
        if get_native_id() == os.getpid():
            self._witness = Witness()

    def forget_group(self) -> None:
        """Undo `watch_group`. May be called twice."""
        if self._witness is not None:
            self._witness.close()

    def _take_signal(self, number: int, code: int, sender: int) -> None:
        if number not in PASSED_ON or self._tracer.keeps_signal(number):
            return
        self._take_events()  # a signal's meaning depends on whether the target lives
        is_shared = self._witness is not None and self._witness.has_seen(number)
        if is_shared:
            self._unsure.pop(number, None)
        if self._tracer.exit is not None:
            if number in heeded(ENDING):
                self._end_forced = True
                self._tracer.let_go()  # only children are left; the signal was for soscope
        elif code <= 0:
            self._end_asked |= number in heeded(ENDING)
            if is_shared or self._is_below(sender):
                return
            # It came from a process, and to soscope alone as far as is known.
            if self._unsure.pop(number, None) or self._witness is None:
                self._send(number)
            if self._witness is not None:
                self._unsure[number] = Sending(sender)

    def _is_below(self, pid: int) -> bool:
        """Return whether a process is the target or one of its descendants."""
        while pid > 1:
            if pid == self.pid:
                return True
            try:
                pid = status.read_stat(pid).parent
            except SoscopeError:
                return False  # an ancestor has ended, so this cannot be decided
        return False

    def _send(self, number: int) -> None:
        if self._tracer.exit is None:
            try:
                os.kill(self.pid, number)
            except OSError:
                pass  # the target runs as another user

    # ---- job control ----

    def _stop_too(self) -> None:
        """Stop soscope as the target has stopped, so that the shell which started it notices.

        Without a terminal there is no such shell, and no process that would continue soscope. If
        only the target is continued, that wakes soscope, too (see `signals`).
        """
        from soscope.control import signals  # late: most targets never stop

        number = self._tracer.job_stop
        self._tracer.job_stop = 0
        while signal.sigtimedwait((signal.SIGCHLD,), 0):
            pass  # later ones are for the time when soscope is stopped
        is_news = self._take_events()
        if not self._terminal or not self._target_is_stopped():
            return
        if is_news:
            self._tracer.job_stop = number  # there may be more events
            return
        child = signals.watch(self.pid)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))  # SIGTSTP stops soscope here
        if number == signal.SIGTSTP:
            signal.pthread_sigmask(signal.SIG_BLOCK, (number,))
        if signals.was_woken(child):
            return
        # `fg` continues the whole process group, but `kill -CONT` only soscope.
        if not self._take_events() and self._target_is_stopped():
            self._send(signal.SIGCONT)

    def _target_is_stopped(self) -> bool:
        task = self._tracer.tasks.get(self.pid)
        if task is None or (task.is_seized and not task.stopped):
            return False
        try:
            return status.read_stat(self.pid).state in ("T", "t")
        except SoscopeError:
            return False

    # ---- programs of a detached target ----

    def _look_at_end(self) -> None:
        """Find out whether the target ended as another program that no earlier look has found."""
        task = self._tracer.tasks.get(self.pid)
        if task is None or task.is_seized or task.program is None or not task.program.name:
            return
        block, announced = task.program.block, self._tracer.executes
        may_be_renamed = block is None or bool(block.agent_flags & layout.AGENT_RENAMED)
        path = program_at_end(self.pid, task.program, announced, may_be_renamed=may_be_renamed)
        if path is None and block is not None and block.executing and status.has_ended(self.pid):
            path = announced or task.program.path
        if path is not None:
            self._tracer.note_exec(task, path, status.NOT_FOLLOWED)

    def _look_at_program(self) -> None:
        """Find out whether an untraced target has executed another program.

        Without `follow` and `threads` only its first thread is traced. If another thread executes
        a program, it takes the first thread's place, and the kernel does not report it.
        """
        task = self._tracer.tasks.get(self.pid)
        now = time.monotonic()
        if task is None or now < self._next_look or (task.is_seized and self._follow):
            return
        self._next_look = now + _LOOK
        if task.is_seized:
            task.is_seized = _is_our_tracee(self.pid)
            if task.is_seized:
                return
        path, file = status.program_path(self.pid), status.program_file(self.pid)
        if task.program is not None and path == task.program.path:
            self._file = file
        elif path and task.program is not None and file != self._file:
            self._tracer.note_exec(task, path, status.NOT_FOLLOWED)


def _has_news(pid: int) -> bool:
    """Return whether a wait for the child `pid` would return something now."""
    try:
        how = os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG | ptrace.WALL
        return os.waitid(os.P_PID, pid, how) is not None
    except ChildProcessError:
        return False


def _poll(tid: int) -> tuple[int, int] | None:
    try:
        waited, wait_status = os.waitpid(tid, _WAIT)
    except ChildProcessError:
        return None
    return (waited, wait_status) if waited else None


def _terminal() -> int:
    """Return the number of soscope's terminal, 0 if there is none or no /proc."""
    try:
        return status.read_stat(os.getpid()).tty
    except SoscopeError:
        return 0


def _is_our_tracee(tid: int) -> bool:
    try:
        return status.read_status(tid).get("TracerPid") == str(get_native_id())
    except SoscopeError:
        return False
