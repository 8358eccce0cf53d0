# SPDX-License-Identifier: Apache-2.0
"""A launched program, seen from outside: wait for it, pass on signals, stop when it stops.

The loop sleeps in sigtimedwait(2). SIGCHLD wakes it, so a signal of the target is passed on
at once; the signals that people send to soscope come the same way. What the terminal or
somebody else sends to the whole process group the target has got already (see `witness`).
"""

from __future__ import annotations

import os
import time
from _thread import get_native_id

from soscope.control.exitstatus import ExitStatus
from soscope.control.follow import AgentSource
from soscope.control.lastprogram import program_at_end
from soscope.control.outcome import EngineVerdict
from soscope.control.program import Program
from soscope.control.signals import ENDING, OWN_SIGNALS, PASSED_ON, Signals
from soscope.control.tracer import Tracer
from soscope.control.witness import GRACE, Sending, Witness
from soscope.entry import ptrace
from soscope.errors import SoscopeError
from soscope.proc import reasons, status
from soscope.proc.signals import heeded, signal
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

_PAUSE = 0.05  # seconds between ticks that ask for nothing else
_TURN = 0.02  # seconds of events after which it is somebody else's turn, if there are more
_LOOK = 0.1  # seconds between looks at which program a detached target runs
_WAIT = ptrace.WALL | os.WNOHANG | os.WUNTRACED

Tick: TypeAlias = "Callable[[], float | None]"


class Target:
    """A program that `launch` started.

    `pid` is its process, `programs` the programs it and its children executed (the first is
    the command; without `follow` the others are only named). `exit` is None until it ended.
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
        self._unsure: dict[int, Sending] = {}  # signals to pass on, unless the group gets them, too
        self._end_asked = False  # by a process
        self._end_forced = False
        self._next_look = 0.0
        self._file: tuple[int, int] | None = None  # of its program, as it was seen last
        self.pid = tracer.pid

    @property
    def programs(self) -> list[Program]:
        """The programs under observation, in the order of their exec."""
        return self._tracer.programs

    @property
    def exit(self) -> ExitStatus | None:
        """How the target ended, None while it lives."""
        return self._tracer.exit

    def await_exec(self, pid: int, name: int) -> None:
        """Trace the process `pid`, which is about to execute another program: see `Tracer`."""
        self._tracer.await_exec(pid, name)

    # ---- the loop ----

    def wait_ready(self) -> None:
        """Wait until the target runs its own code, or has ended."""
        while not self._tracer.is_ready:
            if self._tracer.job_stop:
                self._stop_too()
            if not self._take_events():
                self._sleep(_PAUSE)
        # of a program that a loader was told to start, it is the loader
        self._file = status.program_file(self.pid)

    def run(self, tick: Tick | None = None) -> ExitStatus:
        """Supervise the target until it has ended, with `follow` its children too.

        `tick` is called again and again, last after the end; it returns how many seconds it
        may take to the next call (None: some milliseconds). An exception in it lets the
        target go on untraced. To be called from the thread that launched.
        """
        due = 0.0
        try:
            while not self._is_over():
                if self._take_events():
                    if time.monotonic() < due:
                        continue
                    self._sleep(0)  # a storm of events: what people say is heard all the same
                if self._tracer.job_stop:
                    self._stop_too()
                self._tracer.take_ends()
                pause = tick() if tick is not None else None
                due = time.monotonic() + _TURN
                # The tick may have taken long: somebody may wait for us by now.
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
        """Do what cannot wait, while the tick waits for somebody who reads its output.

        Return False where it should not wait any longer: somebody wants soscope to end.
        """
        if self._tracer.job_stop:
            self._stop_too()
        self._take_events()
        self._sleep(0)
        return not self._end_forced and not (self._end_asked and self._is_over())

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether somebody wants soscope to end, so that it waits for no reader any more.

        That counts once the target has ended: what came before was passed on to it.
        """
        return self._end_forced or self._end_asked

    @property
    def is_interrupted(self) -> bool:
        """Say no: a signal that was sent while the target lived was meant for the target."""
        return False

    def close(self) -> None:
        """Let go of everything; a target that still lives runs on. May be called twice.

        What is sent to soscope from here on waits until `leave`.
        """
        self._pass_on(float("inf"))
        self._tracer.let_go()
        self._agents.close()
        self.forget_group()
        self._signals.drop()  # what was sent while the target lived was meant for the target

    def hear(self) -> bool:
        """Hear what others tell of processes; return whether that is all told."""
        return True

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, None where there is but one."""
        return None

    def remarks(self) -> list[str]:
        """Return what else is to be said of how its calls were seen."""
        return []

    @property
    def is_left(self) -> bool:
        """Return whether it was let go on unobserved before it ended."""
        return False

    def leave(self) -> None:
        """Put soscope's own signals back, when all is written down. May be called twice.

        What has been sent to soscope since `close` does now what it does to any program.
        """
        self._signals.restore()

    def _is_over(self) -> bool:
        if self._tracer.exit is None:
            return False
        if not self._follow:
            return True
        self._tracer.take_ends()
        # A thread that ends while its process does may not be reported to us.
        for tid, task in list(self._tracer.tasks.items()):
            if not os.path.exists(f"/proc/{task.pid}/task/{tid}"):
                del self._tracer.tasks[tid]
        return not self._tracer.tasks

    def _take_events(self) -> bool:
        """Handle the wait statuses that are there, for a moment; return whether there was one."""
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
                return None  # it may end right now: the look at its end is to come before its wait
            self._look_at_end()
            self._tracer.tell_news(self.pid)
            return _poll(self.pid)
        # Whose turn it is, without taking it: the caller of a library has other children.
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

    # ---- signals of our own ----

    def _sleep(self, seconds: float) -> None:
        """Wait for a signal and take all that are there, but only for a moment: more may come."""
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
        """Pass on what has not gone to the whole group; return for how long that is unsure."""
        for number, sending in list(self._unsure.items()):
            is_over = sending.is_over(now)  # first: its sender may have told the group just now
            if self._witness is not None and self._witness.has_seen(number):
                del self._unsure[number]
            elif is_over:
                del self._unsure[number]
                self._send(number)
        return min((sending.due for sending in self._unsure.values()), default=now + GRACE) - now

    def watch_group(self) -> None:
        """From here on know which signals are sent to the whole process group.

        In a program with further threads they are not ours to take.
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
        self._take_events()  # whether the target lives decides what it means
        is_shared = self._witness is not None and self._witness.has_seen(number)
        if is_shared:
            self._unsure.pop(number, None)
        if self._tracer.exit is not None:
            if number in heeded(ENDING):
                self._end_forced = True
                self._tracer.let_go()  # only its children are left, and that was for us
        elif code <= 0:
            self._end_asked |= number in heeded(ENDING)
            if is_shared or self._is_below(sender):
                return
            # From a process, and to us alone as far as we know.
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
                return False  # one of them has ended: who sent it cannot be told
        return False

    def _send(self, number: int) -> None:
        if self._tracer.exit is None:
            try:
                os.kill(self.pid, number)
            except OSError:
                pass  # it runs as another user

    # ---- job control ----

    def _stop_too(self) -> None:
        """Stop as the target did, so that the shell which started us takes notice.

        Without a terminal there is no such shell, and nobody who would continue us. Who
        continues the target alone wakes us, too.
        """
        from soscope.control import wake  # most targets never stop

        number = self._tracer.job_stop
        self._tracer.job_stop = 0
        while signal.sigtimedwait((signal.SIGCHLD,), 0):
            pass  # those that come from now on are for when we are stopped
        is_news = self._take_events()
        if not self._terminal or not self._target_is_stopped():
            return
        if is_news:
            self._tracer.job_stop = number  # there may be more
            return
        child = wake.watch(self.pid)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))  # SIGTSTP stops us here
        if number == signal.SIGTSTP:
            signal.pthread_sigmask(signal.SIG_BLOCK, (number,))
        if wake.was_woken(child):
            return
        # `fg` continues the whole process group, `kill -CONT` only us.
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

    # ---- what a detached target does ----

    def _look_at_end(self) -> None:
        """Notice that it has ended as a program that no look has found."""
        task = self._tracer.tasks.get(self.pid)
        if task is None or task.is_seized or task.program is None or not task.program.name:
            return
        block, announced = task.program.block, self._tracer.executes
        may_be_renamed = block is None or bool(block.agent_flags & layout.AGENT_RENAMED)
        path = program_at_end(self.pid, task.program, announced, may_be_renamed=may_be_renamed)
        if path is None and block is not None and block.executing and status.has_ended(self.pid):
            path = announced or task.program.path
        if path is not None:
            self._tracer.note_exec(task, path, reasons.NOT_FOLLOWED)

    def _look_at_program(self) -> None:
        """Notice that a target which is not traced has executed another program.

        Without `follow` and `threads` only its first thread is traced: when another one executes
        a program, it takes the first one's place, and nobody tells us.
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
            self._tracer.note_exec(task, path, reasons.NOT_FOLLOWED)


def _has_news(pid: int) -> bool:
    """Return whether a wait for our child would return something now."""
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
    """Return the number of our terminal; 0 where there is none, or no /proc to say so."""
    try:
        return status.read_stat(os.getpid()).tty
    except SoscopeError:
        return 0


def _is_our_tracee(tid: int) -> bool:
    try:
        return status.read_status(tid).get("TracerPid") == str(get_native_id())
    except SoscopeError:
        return False
