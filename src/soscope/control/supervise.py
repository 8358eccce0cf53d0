# SPDX-License-Identifier: Apache-2.0
"""A launched program, seen from outside: wait for it, pass on signals, stop when it stops.

The loop sleeps in sigtimedwait(2). SIGCHLD wakes it, so a signal of the target is passed on
at once; the signals that people send to soscope come the same way. The terminal sends its
own to the whole process group, so the target has those already.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from soscope.control.child import Signals
from soscope.control.exitstatus import ExitStatus
from soscope.control.follow import AgentSource
from soscope.control.program import Program
from soscope.control.tracer import Tracer
from soscope.errors import SoscopeError
from soscope.process import ptrace, reasons, status
from soscope.process.signals import signal

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
OWN_SIGNALS = (signal.SIGCHLD, signal.SIGTSTP, *_FORWARDED, *_FROM_TERMINAL)

_PAUSE = 0.05  # seconds between ticks that ask for nothing else
_TURN = 0.02  # seconds of events after which it is somebody else's turn, if there are more
_LOOK = 0.1  # seconds between looks at which program a detached target runs
_WAIT = ptrace.WALL | os.WNOHANG | os.WUNTRACED

Tick = Callable[[], float | None]


class Target:
    """A program that `launch` started.

    `pid` is its process, `programs` the programs it and its children executed (the first is
    the command; without `follow` the others are only named). `exit` is None until it ended.
    """

    def __init__(
        self, tracer: Tracer, agents: AgentSource, signals: Signals, *, follow: bool
    ) -> None:
        self._tracer = tracer
        self._agents = agents
        self._signals = signals
        self._follow = follow
        self._terminal = _terminal()
        self._next_look = 0.0
        self.pid = tracer.pid

    @property
    def programs(self) -> list[Program]:
        """The programs under observation, in the order of their exec."""
        return self._tracer.programs

    @property
    def exit(self) -> ExitStatus | None:
        """How the target ended, None while it lives."""
        return self._tracer.exit

    # ---- the loop ----

    def wait_ready(self) -> None:
        """Wait until the target runs its own code, or has ended."""
        while not self._tracer.is_ready:
            if self._tracer.job_stop:
                self._stop_too()
            if not self._take_events():
                self._sleep(_PAUSE)

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
                pause = tick() if tick is not None else None
                due = time.monotonic() + _TURN
                # The tick may have taken long: somebody may wait for us by now.
                if not self._take_events():
                    self._sleep(_PAUSE if pause is None else pause)
                    self._look_at_program()
            if tick is not None:
                tick()
        finally:
            self.close()
        assert self._tracer.exit is not None
        return self._tracer.exit

    def close(self) -> None:
        """Let go of everything; a target that still lives runs on. May be called twice."""
        self._tracer.let_go()
        self._agents.close()
        # What the terminal sent while the target lived was meant for the target.
        while signal.sigtimedwait((*_FROM_TERMINAL, signal.SIGTSTP, signal.SIGCHLD), 0):
            pass  # each is taken away
        self._signals.restore()

    def _is_over(self) -> bool:
        if self._tracer.exit is None:
            return False
        if not self._follow:
            return True
        # A thread that ends while its process does may not be reported to us.
        for tid, task in list(self._tracer.tasks.items()):
            if not os.path.exists(f"/proc/{task.pid}/task/{tid}"):
                del self._tracer.tasks[tid]
        return not self._tracer.tasks

    def _take_events(self) -> bool:
        """Handle the wait statuses that are there, for a moment; say whether there was one."""
        end = time.monotonic() + _TURN
        found = False
        while time.monotonic() < end:
            event = self._next_event()
            if event is None:
                break
            found = True
            self._tracer.handle(*event)
        return found

    def _next_event(self) -> tuple[int, int] | None:
        if not self._follow:
            return _poll(self.pid) if self._tracer.exit is None else None
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
        if tid in self._tracer.tasks or _is_our_tracee(tid):
            return _poll(tid)
        for tid in list(self._tracer.tasks):
            event = _poll(tid)
            if event is not None:
                return event
        return None

    # ---- signals of our own ----

    def _sleep(self, seconds: float) -> None:
        received = signal.sigtimedwait(OWN_SIGNALS, max(seconds, 0.0))
        while received is not None:
            self._take_signal(received.si_signo, is_sent=received.si_code <= 0)
            received = signal.sigtimedwait(OWN_SIGNALS, 0)

    def _take_signal(self, number: int, *, is_sent: bool) -> None:
        """Take a signal to soscope; `is_sent` by a process, not by the terminal."""
        if number in _FROM_TERMINAL and self._tracer.exit is not None:
            self._tracer.let_go()  # only its children are left; the user has waited enough
        elif is_sent and (number in _FORWARDED or number == signal.SIGTSTP):
            self._send(number)

    def _send(self, number: int) -> None:
        if self._tracer.exit is None:
            try:
                os.kill(self.pid, number)
            except OSError:
                pass  # it runs as another user

    # ---- job control ----

    def _stop_too(self) -> None:
        """Stop as the target did, so that the shell which started us takes notice.

        Without a terminal there is no such shell, and nobody who would continue us.
        """
        number = self._tracer.job_stop
        self._tracer.job_stop = 0
        if not self._terminal or not self._target_is_stopped():
            return
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))  # SIGTSTP stops us here
        if number == signal.SIGTSTP:
            signal.pthread_sigmask(signal.SIG_BLOCK, (number,))
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

    def _look_at_program(self) -> None:
        """Notice that a target which is not traced has executed another program."""
        task = self._tracer.tasks.get(self.pid)
        now = time.monotonic()
        if task is None or task.is_seized or now < self._next_look:
            return
        self._next_look = now + _LOOK
        path = status.program_path(self.pid)
        if path and task.program is not None and path != task.program.path:
            self._tracer.note_exec(task, path, reasons.NOT_FOLLOWED)


def _poll(tid: int) -> tuple[int, int] | None:
    try:
        found, wait_status = os.waitpid(tid, _WAIT)
    except ChildProcessError:
        return None
    return (found, wait_status) if found else None


def _terminal() -> int:
    """Return the number of our terminal; 0 where there is none, or no /proc to say so."""
    try:
        return status.read_stat(os.getpid()).tty
    except SoscopeError:
        return 0


def _is_our_tracee(tid: int) -> bool:
    try:
        return status.read_status(tid).get("TracerPid") == str(os.getpid())
    except SoscopeError:
        return False
