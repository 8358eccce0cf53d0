# SPDX-License-Identifier: Apache-2.0
"""Read the seccomp filters of a process's threads (PTRACE_SECCOMP_GET_FILTER of ptrace(2)).

Only a stopped thread's filters can be read. A stop has an effect: a thread that waits in poll,
nanosleep or a futex goes on by restart_syscall, and it is not known yet whether its filter allows
that call. So the thread is made to repeat its own call, which was allowed, with the rest of its
time-out.
"""

from __future__ import annotations

import ctypes
import errno
import os

from soscope.entry import ptrace
from soscope.entry.stop import waits
from soscope.entry.stop.stopping import Threads
from soscope.errors import NoSuchProcess
from soscope.proc import status
from soscope.proc.status import Refused

STRICT, FILTER = "1", "2"
_CAP_SYS_ADMIN = 21
_MOST = 4096  # BPF_MAXINSNS
_INSTRUCTION = 8  # bytes
_LIMIT = 1.0  # seconds for a thread to stop
_ALL_IDS = "0 0 4294967295"  # uid_map of the first user namespace

Filters = tuple[tuple[bytes, ...], ...]


def count(fields: dict[str, str]) -> int:
    """Return a thread's number of filters, from its status. Before Linux 5.9 it is inexact.

    It is then the seccomp mode, which is 0 without filters.
    """
    return int(fields.get("Seccomp_filters") or fields.get("Seccomp") or 0)


def suspects(pid: int, tids: list[int] | None = None) -> dict[int, int]:
    """Return the threads (of `tids`, else all) with more filters than soscope: tid -> number.

    Raises Refused for strict seccomp, which allows nothing.
    """
    ours = count(status.read_status(os.getpid()))
    counts: dict[int, int] = {}
    for tid in status.threads(pid) if tids is None else tids:
        try:
            fields = status.read_status(tid)
        except NoSuchProcess:
            continue  # a thread that has ended
        kind = fields.get("Seccomp", "0")
        if kind == STRICT:
            raise Refused("strict seccomp: it may only read, write and end")
        if kind == FILTER and count(fields) > ours:
            counts[tid] = count(fields)
    return counts


def missing_right() -> str | None:
    """Return why soscope cannot read filters, None if it can."""
    own = status.read_status(os.getpid())
    if own.get("Seccomp", "0") != "0":
        return "soscope is under a seccomp filter itself"
    if not int(own.get("CapEff", "0"), 16) >> _CAP_SYS_ADMIN & 1:
        return "soscope has no CAP_SYS_ADMIN"
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            if " ".join(file.read().split()) != _ALL_IDS:
                return "soscope is in a user namespace of its own"
    except OSError:
        pass  # a kernel without user namespaces
    return None


def objection_of_stopped(tid: int) -> str | None:
    """Return the objection of a thread's filters to the agent, just after an exec.

    Return None if they allow all its calls. The thread is stopped and traced by soscope. Raises
    Refused.
    """
    from soscope.entry.seccomp import calls

    if lack := missing_right():
        raise Refused(f"its seccomp filter cannot be read: {lack}")
    return calls.objection(list(of_stopped(tid)), starts=True)


def of_stopped(tid: int) -> tuple[bytes, ...]:
    """Return the filters of a stopped thread that this thread traces.

    Raises Refused if the kernel does not return them.
    """
    filters: list[bytes] = []
    buffer = ctypes.create_string_buffer(_MOST * _INSTRUCTION)
    while True:
        try:
            size = ptrace.seccomp_filter(tid, len(filters), buffer)
        except OSError as error:
            if error.errno == errno.ENOENT and filters:
                return tuple(filters)
            raise Refused(f"its seccomp filter cannot be read: {error.strerror}") from error
        filters.append(buffer.raw[: size * _INSTRUCTION])


def read(pid: int, tids: list[int]) -> Filters:
    """Return the different lists of filters of these threads, stopping one thread at a time.

    This must be called in a process that is not killed meanwhile (see `shielded`). Raises
    Refused.
    """
    lists: set[tuple[bytes, ...]] = set()
    for tid in tids:
        thread = _One(pid)
        thread.stop_one(tid)
        try:
            if thread.stopped:
                lists.add(of_stopped(tid))
        finally:
            thread.resume()
    return tuple(lists)


class _One(Threads):
    """One thread of a process, stopped while the others run."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.makes_again = True

    def stop_one(self, tid: int) -> None:
        """Stop the thread. `stopped` is empty afterwards if it has ended."""
        self._clock.learn(waits.look(tid, restarts=True))
        self._seize(tid)
        self._limit_to(_LIMIT)
        try:
            for thread in list(self.stopped.values()):
                self._wait(thread)
            self._find_began()
        except BaseException:
            self.resume()
            raise
