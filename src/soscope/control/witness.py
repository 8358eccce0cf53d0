# SPDX-License-Identifier: Apache-2.0
"""Find out whether a signal went to soscope alone or to its whole process group.

The target is in that group, so it has already got signals that a shell, a supervisor or `kill 0`
sends to the group. A signal to soscope alone has to be passed on. The signal itself does not tell
which it was. So the group has another process, the witness, a child of soscope that does nothing
and blocks all signals. Signals that are pending there, too, went to the whole group.

The witness is a cat(1) that waits for the end of a pipe. A fork of soscope could do the same, but
then a start of soscope would take 3 ms longer, because its pages are copied and take time to
free.
"""

from __future__ import annotations

import os
import time

from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.status import signal

GRACE = 0.01  # seconds to signal one process after the other (timeout, systemd)
_LONGEST = 2.0  # seconds to wait for a sender that gets no processor time
_PROGRAM = "cat"
_SPARED = 4  # descriptors to leave free for the launch
_FOLDERS = ("/usr/bin", "/bin")  # before PATH, whose folders others may write to


class Sending:
    """A signal that came to soscope alone so far, and may still be on its way to others.

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
        """Return whether the signal can reach no more processes. Otherwise set `due` to later."""
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
