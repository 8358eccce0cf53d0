# SPDX-License-Identifier: Apache-2.0
"""The signals that soscope gets while it supervises, and the target of each signal."""

from __future__ import annotations

import ctypes
import os
import time
from _thread import allocate_lock

from soscope.entry.ptrace import libc
from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.status import heeded, signal

# The signals that soscope takes while it supervises a program.
#
# They are blocked from the launch until all output is written, and taken with sigtimedwait(2). So
# soscope waits for signals and for processes in one place, and no signal ends it before its
# recording is complete.

# Signals that a user or a supervisor sends to end a program, and others that are passed on.
ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
PASSED_ON = (*ENDING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP)
OWN_SIGNALS = (signal.SIGCHLD, *PASSED_ON)

_SIGACTION = 152  # bytes of glibc's struct sigaction on x86-64; musl's is as large
_FLAGS_AT, _SA_NOCLDWAIT = 136, 2
_IGNORE = 1  # SIG_IGN


class _Children:
    """The action of SIGCHLD that keeps ended children until they are waited for.

    The action belongs to the whole process, and the `signal` module changes it only in the main
    thread. Traces in several threads share it, and the last one restores it.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._users = 0
        self._before: ctypes.Array[ctypes.c_char] | None = None

    def keep(self) -> None:
        """Keep ended children until they are waited for."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._change()

    def _change(self) -> None:
        now = ctypes.create_string_buffer(_SIGACTION)
        libc.sigaction(signal.SIGCHLD, None, now)
        flags = int.from_bytes(now.raw[_FLAGS_AT : _FLAGS_AT + 4], "little")
        if int.from_bytes(now.raw[:8], "little") == _IGNORE or flags & _SA_NOCLDWAIT:
            self._before = now
            libc.sigaction(signal.SIGCHLD, ctypes.create_string_buffer(_SIGACTION), None)

    def release(self) -> None:
        """Restore the action if no other trace waits for children.

        Children that have ended meanwhile are reaped, because the kernel would not have kept them
        under the old action.
        """
        with self._lock:
            self._users -= 1
            if self._users or not self.put_back():
                return
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass  # each is reaped
            except ChildProcessError:
                pass  # no child is left

    def put_back(self) -> bool:
        """Restore the action. Return whether it was a different one."""
        before, self._before = self._before, None
        if before is not None:
            libc.sigaction(signal.SIGCHLD, before, None)
        return before is not None


_children = _Children()


class Signals:
    """The signal mask and the action of SIGCHLD of this thread, to be restored later."""

    __slots__ = ("_mask",)

    def __init__(self) -> None:
        self._mask: set[int] | None = None

    def block(self) -> None:
        """Block OWN_SIGNALS. This thread takes them from here on."""
        if self._mask is None:
            self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, OWN_SIGNALS))
            _children.keep()

    def drop(self) -> None:
        """Discard the pending signals, except signals that the caller had blocked before."""
        ours = set(OWN_SIGNALS) - (self._mask or set())
        while signal.sigtimedwait(ours, 0):
            pass  # each call discards a pending one

    def restore(self) -> None:
        """Restore the mask and the action. Pending signals are delivered. May be called twice."""
        if self._mask is not None:
            _children.release()
            mask, self._mask = self._mask, None
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def restore_in_child(self) -> None:
        """Restore the mask and the action in a forked process."""
        _children.put_back()
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def end_is_wanted() -> bool:
    """Return whether a signal is pending that should end soscope."""
    return not signal.sigpending().isdisjoint(heeded(ENDING))


def take_wish_to_end() -> None:
    """Discard the signals that should end soscope, because it is about to end anyway."""
    while signal.sigtimedwait(heeded(ENDING), 0):
        pass  # each call discards a pending one


# A process that wakes soscope, which has stopped itself because its target is stopped.
#
# If only the target is continued, soscope stays stopped, and a stopped tracer does not resume its
# tracees. So a child of soscope checks periodically whether there is something to do.

_PAUSE = 0.05  # seconds between checks
_SOON = 5.0  # seconds in which soscope must have stopped
_STOPPED = "Tt"
_CHILD = 1 << signal.SIGCHLD - 1


def watch(target: int) -> int:
    """Fork the process, which ends when soscope goes on. Return its pid, 0 if there is none.

    It continues soscope when `target` goes on, or when an event of a tracee is pending for
    soscope.
    """
    soscope = os.getpid()
    try:
        child = os.fork()
    except OSError:
        return 0  # soscope stays stopped until it gets SIGCONT
    if child:
        return child
    try:
        os.setpgid(0, 0)  # signals to the job must not stop or continue it
        os._exit(_work(soscope, target))
    except BaseException:  # noqa: BLE001  nothing of soscope's is to run on here
        os._exit(0)


def was_woken(child: int) -> bool:
    """End the child that watches soscope. Return whether it has sent SIGCONT to soscope."""
    if not child:
        return False
    try:
        os.kill(child, signal.SIGKILL)
        _, wait_status = os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        return False  # another handler of SIGCHLD has waited for it
    return os.WIFEXITED(wait_status) and os.WEXITSTATUS(wait_status) == 1


def _work(soscope: int, target: int) -> int:
    end = time.monotonic() + _SOON
    has_stopped = False
    while os.getppid() == soscope:
        is_stopped = _state(soscope) in _STOPPED
        has_stopped |= is_stopped
        if has_stopped and not is_stopped:
            return 0
        if not has_stopped and time.monotonic() > end:
            return 0
        if is_stopped and (_state(target) not in _STOPPED or _is_told(soscope)):
            os.kill(soscope, signal.SIGCONT)
            return 1
        time.sleep(_PAUSE)
    return 0


def _state(pid: int) -> str:
    try:
        return status.read_stat(pid).state
    except SoscopeError:
        return "X"  # the process or thread has ended


def _is_told(pid: int) -> bool:
    """Return whether a SIGCHLD is pending for a process."""
    try:
        return bool(int(status.read_status(pid).get("ShdPnd", "0"), 16) & _CHILD)
    except SoscopeError:
        return False  # the process or thread has ended


# Find out whether a signal went to soscope alone or to its whole process group.
#
# The target is in that group, so it has already got signals that a shell, a supervisor or `kill 0`
# sends to the group. A signal to soscope alone has to be passed on. The signal itself does not tell
# which it was. So the group has another process, the witness, a child of soscope that does nothing
# and blocks all signals. Signals that are pending there, too, went to the whole group.
#
# The witness is a cat(1) that waits for the end of a pipe. A fork of soscope could do the same, but
# then a start of soscope would take 3 ms longer, because its pages are copied and take time to
# free.

GRACE = 0.01  # seconds to signal one process after the other (timeout, systemd)
_LONGEST = 2.0  # seconds to wait for a sender that gets no processor time
_PROGRAM = "cat"
_SPARED = 4  # descriptors to leave free for the launch
_FOLDERS = ("/usr/bin", "/bin")  # before PATH, whose folders others may write to


class Sending:
    """A signal that so far only soscope has got, and that its sender may still send to others.

    Its sender needs up to GRACE of processor time to send it to all processes. On a busy machine
    that may take much longer. A sender that sleeps has sent it. `due` is the time
    (time.monotonic()) at which to call `is_over`.
    """

    __slots__ = ("_end", "_ran", "_sender", "due")

    def __init__(self, sender: int) -> None:
        """Begin now. `sender` is a process, or 0 if it is not known."""
        now = time.monotonic()
        self._sender = sender
        self._ran = status.running_time(sender)
        self._end = now + _LONGEST
        self.due = now + GRACE

    def is_over(self, now: float) -> bool:
        """Return whether the signal has reached all processes. Otherwise set `due` to later."""
        if now < self.due:
            return False
        if now >= self._end or status.state_of(self._sender) not in "RD":
            return True
        ran = status.running_time(self._sender)
        if ran is None or self._ran is None or ran - self._ran >= GRACE:
            return True
        self.due = now + GRACE
        return False


class Witness:
    """A process of soscope's group that gets every signal to the group.

    If no such process can be made, every signal is treated as one to soscope alone.
    """

    __slots__ = ("_pid", "_pipe", "_seen")

    def __init__(self) -> None:
        self._pid = 0
        self._pipe: int | None = None
        self._begin()
        self._seen: set[int] = set()  # seen by an earlier witness; still pending here

    def has_seen(self, number: int) -> bool:
        """Return whether a signal that was just taken went to the whole group.

        If a sender signals each process in turn, the signal may still be on its way for another
        GRACE.
        """
        is_known = number in self._seen
        self._seen.discard(number)
        if number not in _pending(self._pid):
            return is_known
        self._renew(number)
        return True

    def _renew(self, number: int) -> None:
        """Start a new witness that has not seen `number`, nor other signals still pending here."""
        old, pipe = self._pid, self._pipe
        self._begin()
        signal.sigtimedwait((number,), 0)  # drop one that came before the new witness
        self._seen |= _pending(old) & signal.sigpending() - {number}
        _end(old, pipe)

    def dismiss(self) -> None:
        """Kill the witness, which ends while other work goes on: no more signals matter."""
        _kill(self._pid)

    def close(self) -> None:
        """End the witness. May be called twice."""
        _end(self._pid, self._pipe)
        self._pid, self._pipe = 0, None

    def _begin(self) -> None:
        """Start a witness. If soscope is killed, it ends with the pipe."""
        self._pid, self._pipe = 0, None
        program = _find()
        if program is None:
            return
        try:
            reader, self._pipe = _pipe()
        except OSError:
            os.close(program)
            return  # see the class for the consequence
        nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
        try:
            self._pid = os.posix_spawn(
                # Its process name is a number, so that `pkill cat` does not end it.
                f"/proc/self/fd/{program}",
                [_PROGRAM],
                {},
                file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), *nowhere],
                setsigmask=signal.valid_signals(),
            )
        except OSError:
            pass  # the same as above
        finally:
            os.close(reader)
            os.close(program)


def _find() -> int | None:
    """Open the program. Return None if there is none."""
    for folder in (*_FOLDERS, *filter(os.path.isabs, os.get_exec_path())):
        try:
            return os.open(os.path.join(folder, _PROGRAM), os.O_PATH)
        except OSError:
            continue  # the program may be in another folder
    return None


def _pipe() -> tuple[int, int]:
    """Make a pipe. Raises OSError if too few descriptors would be left."""
    ends = os.pipe()
    spared: list[int] = []
    try:
        while len(spared) < _SPARED:
            spared.append(os.dup(ends[0]))
    except OSError:
        spared += ends
        raise
    finally:
        for descriptor in spared:
            os.close(descriptor)
    return ends


def _kill(pid: int) -> None:
    if pid:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the witness was killed and reaped elsewhere


def _end(pid: int, pipe: int | None) -> None:
    _kill(pid)
    if pid:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass  # another part of soscope has waited for it
    if pipe is not None:
        os.close(pipe)


def _pending(pid: int) -> set[int]:
    """Return the signals that are pending in a witness, none if the witness is gone."""
    if not pid:
        return set()
    try:
        # This call waits until a kill(2) to the group that is under way has reached all processes.
        os.setpgid(pid, os.getpgrp())
    except OSError:
        pass  # the witness has ended, or the group is in another namespace
    try:
        fields = status.read_status(pid)
        bits = int(fields["ShdPnd"], 16)
    except (SoscopeError, KeyError):
        return set()  # the witness has ended, or the kernel has no such field
    return {number for number in range(1, 65) if bits >> (number - 1) & 1}
