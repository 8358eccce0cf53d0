# SPDX-License-Identifier: Apache-2.0
"""Owners of chunks, by the ids of process and thread in their own pid namespace.

Two processes in two pid namespaces may have one number. Then it cannot be told which of them owns
a chunk, and the owner counts as ended only if neither process has such a thread.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet


class Owners:
    """The processes that use a block, at one moment.

    `pids` are their ids as soscope sees them. `inner` has their ids in their own namespace if
    they differ.
    """

    __slots__ = ("_inner", "_pids", "_processes", "_threads")

    def __init__(self, pids: AbstractSet[int], inner: Mapping[int, int]) -> None:
        self._pids = pids
        self._inner = inner
        self._processes: dict[int, list[int]] | None = None  # by pid in their own namespace
        self._threads: dict[int, set[int] | None] = {}  # tids in their own namespace, by pid

    def _of(self, pid: int) -> list[int]:
        if not self._inner:
            return [pid] if pid in self._pids else []
        if self._processes is None:
            self._processes = {}
            for ours in self._pids:
                self._processes.setdefault(self._inner.get(ours, ours), []).append(ours)
        return self._processes.get(pid, [])

    def may_be(self, pid: int) -> bool:
        """Return whether one of them has the id `pid` in its own namespace."""
        return bool(self._of(pid))

    def have_lost(self, pid: int, tid: int) -> bool:
        """Return whether a thread of one of them has ended. `pid` and `tid` are its own ids."""
        processes = self._of(pid)
        return bool(processes) and not any(self._lives(process, tid) for process in processes)

    def _lives(self, pid: int, tid: int) -> bool:
        is_inner = pid in self._inner
        if pid not in self._threads:
            self._threads[pid] = _inner_tids(pid) if is_inner else _tids(pid)
        tids = self._threads[pid]
        if tids is None or tid in tids:
            return True
        return not is_inner and _is_there(f"/proc/{pid}/task/{tid}")


def _tids(pid: int) -> set[int]:
    """Return the ids of a process's threads. Some may be missed."""
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:
        return set()  # each thread is looked up by itself


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, ProcessLookupError):
        return not _is_our_proc()  # else this /proc is not about our processes
    except OSError:
        return True
    return True


def _is_our_proc() -> bool:
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:  # no /proc at all
        return False


def _inner_tids(pid: int) -> set[int] | None:
    """Return the ids of a process's threads in its own namespace, None if they are not known."""
    inner = set()
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return set()  # the process has ended
    except OSError:
        return None  # the process may not be examined
    for tid in tids:
        try:
            with open(f"/proc/{pid}/task/{tid}/status", "rb", buffering=0) as file:
                _, _, rest = file.read().partition(b"\nNSpid:")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process or thread has ended meanwhile
        except OSError:  # the thread may not be examined, either
            return None
        if not rest:
            return None
        inner.add(int(rest.split(b"\n", 1)[0].split()[-1]))
    return inner
