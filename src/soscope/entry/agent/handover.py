# SPDX-License-Identifier: Apache-2.0
"""Descriptors of ours in the target: by a path, by a pidfd, or made there and opened here.

The program that soscope starts inherits them; these ways are for the programs that it then
executes, and for when no descriptor was free. All work without the target's own code.
"""

from __future__ import annotations

import errno
import os

from soscope.entry.isa import arch
from soscope.entry.stop.tracee import Tracee
from soscope.proc.reasons import Refused

_AT_FDCWD = -100
_MFD_CLOEXEC = 1


def _string(tracee: Tracee, text: str) -> int:
    """Write a string where the thread's stack is free; return its address."""
    data = os.fsencode(text) + b"\0"
    addr = tracee.scratch(len(data))
    tracee.memory.write(addr, data)
    return addr


def open_by_path(tracee: Tracee, descriptor: int) -> int:
    """Let the target open our `descriptor` through /proc; return its number, or -errno.

    Fails in another root or process namespace.
    """
    path = _string(tracee, f"/proc/{os.getpid()}/fd/{descriptor}")
    return tracee.syscall(arch.NR_OPENAT, _AT_FDCWD, path, os.O_RDWR | os.O_CLOEXEC)


def fetch_by_pidfd(tracee: Tracee, descriptor: int) -> int:
    """Let the target take our `descriptor` with pidfd_getfd(2); return its number, or -errno.

    Works in another root, not in another process namespace. Linux 5.6.
    """
    pidfd = tracee.syscall(arch.NR_PIDFD_OPEN, os.getpid(), 0)
    if pidfd < 0:
        return pidfd
    number = tracee.syscall(arch.NR_PIDFD_GETFD, pidfd, descriptor, 0)
    tracee.syscall(arch.NR_CLOSE, pidfd)
    return number


def fetch(tracee: Tracee, descriptor: int) -> int:
    """Bring our `descriptor` into the target; return its number there, or -errno."""
    # Another process namespace may have another process under our number: it is the file
    # that counts, so look at what was opened.
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
    """Make a memory file in the target and open it here; return (number there, ours).

    For targets that none of our descriptors can reach. Raises Refused where that fails too.
    """
    number = tracee.syscall(arch.NR_MEMFD_CREATE, _string(tracee, "soscope"), _MFD_CLOEXEC)
    if number < 0:
        raise Refused(f"no shared memory in the process: {os.strerror(-number)}")
    try:
        ours = os.open(f"/proc/{tracee.tid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        close(tracee, number)
        raise Refused(f"no shared memory with the process: {error.strerror}") from error
    return number, ours


def copy_file(source: int, size: int, target: int) -> None:
    """Copy `size` bytes of one memory file into an empty one.

    Raises OSError.
    """
    os.ftruncate(target, size)
    done = 0
    while done < size:
        sent = os.sendfile(target, source, done, size - done)
        if not sent:
            break
        done += sent
