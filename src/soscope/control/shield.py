# SPDX-License-Identifier: Apache-2.0
"""Do work that must not be interrupted in a child process, if seccomp filters allow it."""

from __future__ import annotations

import _socket  # 0.2 ms; socket takes 7
import errno
import marshal
import os
import select
import signal
import sys
import time

from soscope.control.signals import end_is_wanted
from soscope.entry import seccomp
from soscope.entry.agent.visit import Visit
from soscope.entry.tracee import Gone
from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError
from soscope.proc.status import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # Values that marshal can carry: numbers, text, bytes, tuples and lists of them.
    Plain = tuple[Any, ...]
    # module and name of a class of errors, its arguments, its attributes
    Failure = tuple[str, str, tuple[Any, ...], dict[str, Any]]


# Do work that must not be interrupted, in a child process.
#
# While threads of a process are stopped and one of them has soscope's register values, a SIGKILL to
# soscope would destroy that process: the kernel would let its threads run on in this state. So a
# child does such work, which takes milliseconds. Users do not know the child and so do not kill it.
# If soscope ends, the child still finishes what it has begun.

_PIECE = 1 << 16
_INT = 4  # bytes of a descriptor
_MOST_FILES = 4
_PAUSE = 0.25  # seconds between checks for blocked signals
_PATIENCE = 2.0  # seconds that the work may go on when soscope should end
# Seconds that the work may take. Stopping thousands of threads has taken fifteen, and a heap may
# be large. Only a target with endless data structures takes longer.
_LONGEST = 300
_LAST = 10  # seconds more to undo its changes
_LONG = 1.0  # seconds of work after which `on_long` is called

_GIVEN = b"+"  # message that passes descriptors; no result begins so
_TAKEN = b"-"

_waiting: list[int] = []  # in a child: the process that waits for it
# while work is done: the functions that pass its descriptors to the waiting process
_givers: list[Callable[[list[int]], object]] = []


def shielded(
    work: Callable[[], Plain],
    on_given: Callable[[list[int]], object] | None = None,
    on_long: Callable[[], None] = lambda: None,
) -> Plain:
    """Do `work` in a child, and return its result.

    `on_given` gets descriptors that the work gives, as this process's own, and the work goes on
    when it returns. `on_long` is called once, if the work takes longer than a second. After five
    minutes the work is ended by an error, however it comes about, and undoes what it has begun.
    Raises what the work raises, if that is a SoscopeError, a Refused or an OSError: class, message,
    hint, slug and exit status are the same as in the child. Raises SoscopeError for any other
    error, and if soscope is to end while the work goes on: the child then ends by itself. If no
    process can be made, the work is done here.
    """
    soscope = os.getpid()
    try:
        mine, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    except OSError:
        return _unshielded(work, on_given)
    try:
        child = os.fork()
    except OSError:
        mine.close()
        theirs.close()
        return _unshielded(work, on_given)
    if not child:
        _waiting.append(soscope)
        mine.close()
        _be_the_child(work, theirs)
    theirs.close()
    try:
        data = _read_all(mine, child, on_given, on_long)
    finally:
        mine.close()
    _reap(child)
    if not data:
        raise SoscopeError("the process that does the work was killed")
    try:
        is_done, value = marshal.loads(data)  # noqa: S302  our own child wrote it
    except (EOFError, ValueError, TypeError) as error:  # the child was killed while it sent it
        raise SoscopeError("the process that does the work was killed") from error
    if not is_done:
        raise _error(value)
    result: Plain = value
    return result


def _unshielded(work: Callable[[], Plain], on_given: Callable[[list[int]], object] | None) -> Plain:
    if on_given is None:
        return work()
    take = on_given
    _givers.append(lambda descriptors: take([os.dup(number) for number in descriptors]))
    try:
        return work()
    finally:
        del _givers[-1]


def give(descriptors: list[int]) -> None:
    """Pass descriptors from shielded work to the waiting process, and wait until it has them.

    Does nothing outside such work. Raises OSError if soscope has ended.
    """
    if _givers:
        _givers[-1](descriptors)


def is_abandoned() -> bool:
    """Return whether this is a child of `shielded` whose waiting soscope has ended.

    The work must not begin anything new then, because `soscope detach` may have looked already.
    """
    return bool(_waiting) and os.getppid() != _waiting[-1]


def _be_the_child(work: Callable[[], Plain], theirs: _socket.socket) -> None:
    def hand_over(descriptors: list[int]) -> None:
        numbers = b"".join(number.to_bytes(_INT, sys.byteorder) for number in descriptors)
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)]
        theirs.sendmsg([_GIVEN], rights, _socket.MSG_NOSIGNAL)
        if theirs.recv(1) != _TAKEN:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    try:
        os.setpgid(0, 0)  # signals of a terminal are for soscope
        _ask_to_be_spared()
        _end_later()
        _givers.append(hand_over)
        try:
            data = marshal.dumps((True, work()))
        except BaseException as error:  # noqa: BLE001  raised in the parent
            data = marshal.dumps((False, _plain(error)))
        sent = 0
        while sent < len(data):
            sent += theirs.send(data[sent:])
    except OSError:
        pass  # soscope has ended
    finally:
        os._exit(0)


def _ask_to_be_spared() -> None:
    """Tell the kernel to kill other processes first if memory is short. Only root may do so."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("-1000")
    except OSError:
        pass  # the child is as likely to be killed as soscope


def _end_later() -> None:
    """Raise an exception in the work after its time limit, and end the process soon after."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        signal.alarm(_LAST)
        raise SoscopeError(f"it takes longer than {_LONGEST} seconds: given up")

    signal.signal(signal.SIGALRM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(_LONGEST)


def _read_all(
    mine: _socket.socket,
    child: int,
    on_given: Callable[[list[int]], object] | None,
    on_long: Callable[[], None],
) -> bytes:
    data = b""
    end = 0.0
    long = time.monotonic() + _LONG
    while True:
        while not select.select([mine], [], [], _PAUSE)[0]:
            if long and time.monotonic() >= long:
                long = 0.0
                on_long()
            if not end_is_wanted():
                continue
            end = end or time.monotonic() + _PATIENCE
            if time.monotonic() > end:
                raise SoscopeError(f"not waited for: process {child} goes on, and ends by itself")
        piece, rights, _, _ = mine.recvmsg(
            _PIECE, _socket.CMSG_SPACE(_MOST_FILES * _INT), _socket.MSG_CMSG_CLOEXEC
        )
        descriptors = [
            int.from_bytes(numbers[at : at + _INT], sys.byteorder)
            for _, kind, numbers in rights
            if kind == _socket.SCM_RIGHTS
            for at in range(0, len(numbers) - len(numbers) % _INT, _INT)
        ]
        if not data and piece == _GIVEN:
            if on_given is not None:
                on_given(descriptors)
            mine.send(_TAKEN, _socket.MSG_NOSIGNAL)
            continue
        if not piece:
            return data
        data += piece


def _reap(child: int) -> None:
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass  # another handler of SIGCHLD has waited for it


def _plain(error: BaseException) -> Failure:
    """Return an error as values that marshal carries; a Gone thread is a process that has ended."""
    if isinstance(error, Gone):
        error = NoSuchProcess("the process has ended")
    kind = type(error)
    if isinstance(error, (SoscopeError, Refused, OSError)):
        state = dict(vars(error))
        if isinstance(error, OSError):  # which keeps these out of its dictionary
            state.update(errno=error.errno, filename=error.filename)
        failure = (kind.__module__, kind.__name__, error.args, state)
        try:
            marshal.dumps(failure)
        except ValueError:
            pass  # it holds an object, which stays in this process
        else:
            return failure
    text = f"{kind.__name__}: {error}"
    return SoscopeError.__module__, SoscopeError.__name__, (text,), vars(SoscopeError(text))


def _error(failure: Failure) -> Exception:
    """Return the error that `_plain` has taken apart, of the same class and with the same state."""
    module, name, args, state = failure
    kind: type[Exception] = getattr(__import__(module, fromlist=[name]), name)
    error = kind.__new__(kind, *args)
    error.args = args
    for attribute, value in state.items():
        setattr(error, attribute, value)
    return error


# Attach to a process under a seccomp filter only if the filter allows the agent's system calls.


def check_filters(visit: Visit) -> None:
    """Read the seccomp filters of each thread of the visited process, and test them.

    Raises Refused if a filter forbids a needed system call, NotPermitted if soscope may not read
    the filters, and NoSuchProcess.
    """
    counts = seccomp.suspects(visit.pid)
    if not counts:
        return
    if lack := seccomp.missing_right():
        raise NotPermitted(
            f"process {visit.pid}: its seccomp filter may forbid what the agent needs, "
            f"and cannot be read: {lack}",
            hint="run soscope as root, outside of containers",
        )
    for listed in shielded(lambda: seccomp.read(visit.pid, list(counts))):
        if said := seccomp.objection(list(listed)):
            raise Refused(said)
    visit.filtered = counts
