# SPDX-License-Identifier: Apache-2.0
"""Whether a signal went to soscope alone, or to its whole process group.

The target is in that group, so what a shell, a supervisor or `kill 0` sends there has reached
it already; what was sent to soscope alone has to be passed on. The signal itself does not
tell. So another process is in the group, a child of soscope that does nothing and blocks all
signals: those that wait there, too, went to all.

That child is a cat(1) that waits for the end of a pipe. A fork of soscope could do it as well,
but a start of soscope would wait 3 ms longer: its pages are copied, and take time to free.
"""

from __future__ import annotations

import os
import time

from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.signals import signal

GRACE = 0.01  # seconds in which somebody sends to one process after the other (timeout, systemd)
_LONGEST = 2.0  # seconds for which somebody is waited for who has no processor meanwhile
_PROGRAM = "cat"
_SPARED = 4  # descriptors that must be left: a launch needs them more
_FOLDERS = ("/usr/bin", "/bin")  # before those of PATH, which may be anybody's


class Sending:
    """A signal that came to soscope alone, and may still be on its way to others.

    Its sender needs GRACE of a processor's time to send it to all; on a busy machine that may
    take much longer. Who sleeps has sent it. `due` is when to ask `is_over`, by
    time.monotonic().
    """

    __slots__ = ("_end", "_ran", "_sender", "due")

    def __init__(self, sender: int) -> None:
        """Begin now; `sender` is a process, 0 where it is not known."""
        now = time.monotonic()
        self._sender = sender
        self._ran = status.running_time(sender)
        self._end = now + _LONGEST
        self.due = now + GRACE

    def is_over(self, now: float) -> bool:
        """Return whether nothing more is to come; else `due` is later."""
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
    """A process of our group that gets what the group gets.

    Where no process can be made, every signal is taken for one to soscope alone.
    """

    __slots__ = ("_pid", "_pipe", "_seen")

    def __init__(self) -> None:
        self._pid = 0
        self._pipe: int | None = None
        self._begin()
        self._seen: set[int] = set()  # by a witness that has gone; ours are still to be taken

    def has_seen(self, number: int) -> bool:
        """Return whether a signal that we have just taken went to the whole group.

        One that somebody sends to each process in turn may be on its way for another GRACE.
        """
        is_known = number in self._seen
        self._seen.discard(number)
        if number not in _pending(self._pid):
            return is_known
        self._renew(number)
        return True

    def _renew(self, number: int) -> None:
        """Have a witness that has not seen `number`, nor what else we are about to take."""
        old, pipe = self._pid, self._pipe
        self._begin()
        signal.sigtimedwait((number,), 0)  # again, before the new one was there
        self._seen |= _pending(old) & signal.sigpending() - {number}
        _end(old, pipe)

    def dismiss(self) -> None:
        """Let it end while we do something else: there is nothing more to be seen."""
        _kill(self._pid)

    def close(self) -> None:
        """End it. May be called twice."""
        _end(self._pid, self._pipe)
        self._pid, self._pipe = 0, None

    def _begin(self) -> None:
        """Start a witness. It ends with the pipe if somebody kills soscope."""
        self._pid, self._pipe = 0, None
        program = _find()
        if program is None:
            return
        try:
            reader, self._pipe = _pipe()
        except OSError:
            os.close(program)
            return  # the class says what that means
        nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
        try:
            self._pid = os.posix_spawn(
                # Its name for pkill(1) is a number: what is sent to all cats is not for us.
                f"/proc/self/fd/{program}",
                [_PROGRAM],
                {},
                file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), *nowhere],
                setsigmask=signal.valid_signals(),
            )
        except OSError:
            pass  # as above
        finally:
            os.close(reader)
            os.close(program)


def _find() -> int | None:
    """Open the program; None where there is none."""
    for folder in (*_FOLDERS, *filter(os.path.isabs, os.get_exec_path())):
        try:
            return os.open(os.path.join(folder, _PROGRAM), os.O_PATH)
        except OSError:
            continue  # it lies in another folder
    return None


def _pipe() -> tuple[int, int]:
    """Make a pipe. Raises OSError where too few descriptors would be left."""
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
            pass  # somebody else has killed it, and waited for it


def _end(pid: int, pipe: int | None) -> None:
    _kill(pid)
    if pid:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass  # somebody else has waited for it
    if pipe is not None:
        os.close(pipe)


def _pending(pid: int) -> set[int]:
    """Return the signals that wait in a witness, none where it is gone."""
    if not pid:
        return set()
    try:
        # Waits until a kill(2) that is on its way through the group has reached all.
        os.setpgid(pid, os.getpgrp())
    except OSError:
        pass  # it has ended, or the group is that of another namespace
    try:
        fields = status.read_status(pid)
        bits = int(fields["ShdPnd"], 16)
    except (SoscopeError, KeyError):
        return set()  # it has ended, or the kernel does not say
    return {number for number in range(1, 65) if bits >> (number - 1) & 1}
