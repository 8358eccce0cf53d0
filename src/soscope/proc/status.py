# SPDX-License-Identifier: Apache-2.0
"""Read /proc/PID/stat and /proc/PID/status."""

from __future__ import annotations

import errno
import os

from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError

ENDED = "ZX"  # states of threads that have ended

PF_KTHREAD = 0x0020_0000  # <linux/sched.h>

_CAP_SYS_PTRACE = 19
_PIECE = 4096  # bytes
_LOOKS = 100  # tries, as threads come and go; a thread that its tracer has not reaped stays


class Stat:
    """Fields of /proc/PID/stat; `start` is in clock ticks since boot, `tty` 0 if it has none.

    `flags` are the kernel's PF_ flags: PF_KTHREAD is set for a thread of the kernel. `threads`
    includes threads that have ended and not been waited for, the leader among them. It is 0 if
    the thread was gone before the kernel counted.
    """

    __slots__ = ("flags", "group", "parent", "pid", "session", "start", "state", "threads", "tty")

    def __init__(self, text: bytes) -> None:
        # The name in brackets may itself hold blanks and brackets; the fields behind it do not.
        head, _, tail = text.rpartition(b")")
        fields = tail.split()
        self.pid = int(head.split(b"(", 1)[0])
        self.state = fields[0].decode()
        self.parent, self.group, self.session, self.tty = map(int, fields[1:5])
        self.flags = int(fields[6])
        self.threads = int(fields[17])
        self.start = int(fields[19])


def _slurp(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, _PIECE)
        while len(data) % _PIECE == 0 and (more := os.read(descriptor, _PIECE)):
            data += more  # some users are in thousands of groups
        return data
    finally:
        os.close(descriptor)


def _unseen(pid: int, error: OSError) -> SoscopeError:
    """Make the error for a process whose files in /proc could not be read.

    Such an error does not tell whether the process exists if soscope lacks descriptors or memory,
    or if /proc hides the processes of other users (proc(5), hidepid).
    """
    if error.errno in (errno.EACCES, errno.EPERM):
        return NotPermitted(f"/proc does not show process {pid}", errno=error.errno)
    if error.errno in (errno.ENOENT, errno.ESRCH):
        return NoSuchProcess(f"no process {pid}", errno=error.errno)
    reason = (error.strerror or "").lower()
    return SoscopeError(f"cannot look at process {pid}: {reason}", errno=error.errno)


def read_stat(pid: int) -> Stat:
    """Read /proc/PID/stat.

    Raises NoSuchProcess if there is no such process, NotPermitted if /proc hides it.
    """
    try:
        return Stat(_slurp(f"/proc/{pid}/stat"))
    except OSError as error:
        raise _unseen(pid, error) from error


def zombie(pid: int, number: int | None = None) -> NoSuchProcess:
    """Make the error for a process that has ended and that its parent has not waited for."""
    return NoSuchProcess(
        f"process {pid} has ended (a zombie)",
        hint="its parent has not waited for it yet",
        errno=number,
    )


def has_ended(pid: int) -> bool:
    """Return whether no thread of a process is left, or only a leader that has ended.

    A look at each thread in turn could not tell. Meanwhile one of them may have made another
    thread, or have executed a program, which gives it the leader's id. If the leader disappears
    during the look, its parent has waited for it, or such a thread has taken its place.
    """
    for _ in range(_LOOKS):
        try:
            stat = read_stat(pid)
        except NoSuchProcess:
            return True
        if stat.threads:
            return stat.state in ENDED and stat.threads == 1
    return False


def living_thread(pid: int) -> int:
    """Return the leader of a process, or a thread that lives if the leader has ended.

    Raises NoSuchProcess, also for a zombie.
    """
    for _ in range(_LOOKS):
        if read_stat(pid).state not in ENDED:
            return pid
        for tid in threads(pid):
            if state_of(tid) not in ENDED:
                return tid
        if has_ended(pid):
            break
    raise zombie(pid)


def state_of(tid: int) -> str:
    """Return the state letter of a thread, "X" if it is gone."""
    try:
        return read_stat(tid).state
    except NoSuchProcess:
        return "X"


def running_time(tid: int) -> float | None:
    """Return how many seconds a thread has run; None if it is gone or the kernel does not tell."""
    turns = processor_times(tid)
    return None if turns is None else turns[0] / 1e9


def processor_times(tid: int | str) -> tuple[int, int] | None:
    """Return how many ns a thread has run, and how many ns it has waited for a processor.

    `tid` may be "thread-self". None: it is gone, or the kernel keeps no account. See schedstats of
    the kernel's documentation (Documentation/scheduler/sched-stats.rst).
    """
    try:
        ran, waited, _ = map(int, _slurp(f"/proc/{tid}/schedstat").split())
    except (OSError, ValueError):
        return None
    return ran, waited


def read_status(pid: int) -> dict[str, str]:
    """Read /proc/PID/status as a dict: field -> text, without the blanks around it.

    Raises NoSuchProcess if there is no such process.
    """
    try:
        text = os.fsdecode(_slurp(f"/proc/{pid}/status"))
    except OSError as error:
        raise _unseen(pid, error) from error
    return fields_of(text)


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of a text of /proc/PID/status, read by any means."""
    fields = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    return fields


def has_shadow_stack(fields: dict[str, str]) -> bool:
    """Return whether a thread with this status has a shadow stack, which checks each return.

    That takes Linux 6.6 and a C library that asks for it. Then a changed return address, or a
    call frame that was made up, kills the process.
    """
    return "shstk" in fields.get("x86_Thread_features", "").split()


def inner_pid(pid: int) -> int:
    """Return the id that a process has in its own pid namespace; `pid` if /proc does not tell."""
    if not is_our_proc():
        return pid
    try:
        numbers = read_status(pid).get("NSpid", "").split()
    except NoSuchProcess:
        return pid  # the process or thread has ended
    return int(numbers[-1]) if numbers else pid


def may_trace_setuid() -> bool:
    """Return whether a traced program keeps its set-user-id bit (soscope has CAP_SYS_PTRACE)."""
    try:
        capabilities = int(read_status(os.getpid()).get("CapEff", "0"), 16)
    except NoSuchProcess:  # no /proc
        return False
    return bool(capabilities >> _CAP_SYS_PTRACE & 1)


def is_our_proc() -> bool:
    """Return whether the process ids in /proc are those of soscope's own pid namespace.

    They are not if a new pid namespace was made and /proc was not mounted again.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:  # no /proc at all: the next read reports it
        return True


def namespace(pid: int, kind: str) -> str:
    """Return the name of a namespace of a process ("pid", "mnt", ...), "" if it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def descendants(pid: int) -> dict[int, int]:
    """Return the children of a process, their children, and so on: pid -> parent."""
    parents: dict[int, int] = {}
    todo = [pid]
    while todo:
        parent = todo.pop()
        for child in children(parent):
            if child not in parents:
                parents[child] = parent
                todo.append(child)
    return parents


def threads(pid: int) -> list[int]:
    """Return the threads of a process, none if it is gone."""
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """Return the children of a process, including those that have ended."""
    pids = []
    for tid in threads(pid):
        try:
            pids += [int(word) for word in _slurp(f"/proc/{pid}/task/{tid}/children").split()]
        except OSError:
            continue  # a thread that has ended
    return pids


def has_memory(pid: int) -> bool:
    """Return whether a process has memory, which it loses long before it is a zombie."""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except FileNotFoundError:
        return False
    except OSError:
        pass  # soscope may not look at it
    return True


def program_file(pid: int) -> tuple[int, int] | None:
    """Return device and inode of the program that a process runs, None if they cannot be read.

    They stay the same if the file is renamed, or if another file takes its name.
    """
    try:
        file = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return None
    return file.st_dev, file.st_ino


def program_path(pid: int) -> str:
    """Return the path of the program that a process runs, "" if it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""
