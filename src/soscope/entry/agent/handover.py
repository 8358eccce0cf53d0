# SPDX-License-Identifier: Apache-2.0
"""Get soscope's descriptors into the target: by path, by pidfd, or by files made there.

The program that soscope starts inherits the descriptors. These ways are for programs that it
executes later, and for a start without free descriptors. All of them work without the target's
own code.

A file that is made in the target may be replaced before soscope has it, because a process that
shares only the descriptors is not stopped. So soscope never opens such a file by a path. It takes
the descriptor itself, with the access mode that it has there.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os

from soscope.entry.isa import arch
from soscope.entry.stop.tracee import Tracee
from soscope.errors import NoSuchProcess
from soscope.proc import status
from soscope.proc.status import Refused
from soscope.wire import sharedfile

_AT_FDCWD = -100
_PIDFD_THREAD = os.O_EXCL  # Linux 6.9: <linux/pidfd.h>

_libc = ctypes.CDLL(None, use_errno=True)


class Files:
    """The agent's files in a target: the descriptor numbers of blob, control block and plan.

    `execs` is the number of the file of `ControlBlock.execs`. A number is -1 if there is no such
    file. `made` are the inodes of files that had to be made in the target.
    """

    __slots__ = ("blob", "control", "execs", "made", "plan")

    def __init__(
        self, blob: int, control: int, plan: int, execs: int = -1, *, made: tuple[int, ...] = ()
    ) -> None:
        self.blob = blob
        self.control = control
        self.plan = plan
        self.execs = execs
        self.made = made

    @property
    def numbers(self) -> list[int]:
        """The numbers of the files that are there."""
        numbers = (self.blob, self.control, self.plan, self.execs)
        return [number for number in numbers if number >= 0]


def _string(tracee: Tracee, text: str) -> int:
    """Write a string into the free part of the thread's stack, and return its address."""
    data = os.fsencode(text) + b"\0"
    addr = tracee.scratch(len(data))
    tracee.memory.write(addr, data)
    return addr


def open_by_path(tracee: Tracee, descriptor: int) -> int:
    """Let the target open soscope's `descriptor` through /proc. Return its number, or -errno.

    This fails in another root or process namespace.
    """
    path = _string(tracee, f"/proc/{os.getpid()}/fd/{descriptor}")
    return tracee.syscall(arch.NR_OPENAT, _AT_FDCWD, path, os.O_RDWR | os.O_CLOEXEC)


def fetch_by_pidfd(tracee: Tracee, descriptor: int) -> int:
    """Let the target take soscope's `descriptor` by pidfd_getfd(2). Return its number, or -errno.

    This works in another root, but not in another process namespace. It needs Linux 5.6.
    """
    pidfd = tracee.syscall(arch.NR_PIDFD_OPEN, os.getpid(), 0)
    if pidfd < 0:
        return pidfd
    number = tracee.syscall(arch.NR_PIDFD_GETFD, pidfd, descriptor, 0)
    tracee.syscall(arch.NR_CLOSE, pidfd)
    return number


def fetch(tracee: Tracee, descriptor: int) -> int:
    """Bring soscope's `descriptor` into the target. Return its number there, or -errno."""
    # In another process namespace, soscope's number may be another process's, so the opened file
    # is compared.
    failure = -errno.EBADF
    for way in (open_by_path, fetch_by_pidfd):
        number = way(tracee, descriptor)
        if number < 0:
            failure = number
        elif _is_same_file(tracee, number, descriptor):
            return number
        else:
            close(tracee, number)
    return failure


def close(tracee: Tracee, number: int) -> None:
    """Close a descriptor of the target."""
    tracee.syscall(arch.NR_CLOSE, number)


def _is_same_file(tracee: Tracee, number: int, descriptor: int) -> bool:
    try:
        there = os.stat(f"/proc/{tracee.tid}/fd/{number}")
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def create(tracee: Tracee) -> tuple[int, int]:
    """Make a memory file in the target and take it. Return (number there, soscope's descriptor).

    This is for targets that cannot reach soscope's descriptors. Raises Refused if the target
    cannot make a file, or if another process has put another file in its place.
    """
    name = _string(tracee, "soscope")
    number = -errno.ENOSYS
    for flags in sharedfile.FLAGS:
        number = tracee.syscall(arch.NR_MEMFD_CREATE, name, flags)
        if number >= 0:
            break
    else:
        raise Refused(f"no shared memory in the process: {os.strerror(-number)}")
    try:
        ours = _take(tracee, number)
        try:
            _check_new(ours)
        except Refused:
            os.close(ours)
            raise
    except OSError as error:
        close(tracee, number)
        raise Refused(f"no shared memory with the process: {error.strerror}") from error
    except Refused:
        close(tracee, number)
        raise
    return number, ours


def _take(tracee: Tracee, number: int) -> int:
    """Take the target's descriptor `number` by pidfd_getfd(2) (Linux 5.6). Return soscope's.

    Raises OSError.
    """
    try:
        pidfd = os.pidfd_open(tracee.tid, _PIDFD_THREAD)
    except OSError:  # older kernels: leaders only, which usually share descriptors
        pidfd = os.pidfd_open(_leader(tracee.tid))
    try:
        ours: int = _libc.syscall(arch.NR_PIDFD_GETFD, pidfd, number, 0)
    finally:
        os.close(pidfd)
    if ours < 0:
        failure = ctypes.get_errno()
        raise OSError(failure, os.strerror(failure))
    return ours


def _leader(tid: int) -> int:
    try:
        return int(status.read_status(tid)["Tgid"])
    except (NoSuchProcess, KeyError) as error:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from error


def _check_new(descriptor: int) -> None:
    """Refuse a file that cannot be the one that was just made. May raise OSError."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        seals = fcntl.F_SEAL_SEAL  # no seals: not a memory file
    mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    is_new = not seals & sharedfile.SIZE_SEALS and not os.fstat(descriptor).st_size
    if mode != os.O_RDWR or not is_new:
        raise Refused(status.MEDDLED)


def copy_file(source: int, size: int, target: int) -> None:
    """Copy `size` bytes of a memory file into an empty one, and seal that.

    Raises OSError, and Refused if another process writes to it.
    """
    os.ftruncate(target, size)
    done = 0
    while done < size:
        sent = os.sendfile(target, source, done, size - done)
        if not sent:
            break
        done += sent
    sharedfile.seal_content(target)
    if os.fstat(target).st_size != size:  # the file was truncated before the seal
        raise Refused(status.MEDDLED)
