# SPDX-License-Identifier: Apache-2.0
"""What /proc/PID/stat and /proc/PID/status say."""

from __future__ import annotations

import errno
import os

from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError

ENDED = "ZX"  # states of threads

PF_KTHREAD = 0x0020_0000  # <linux/sched.h>

_CAP_SYS_PTRACE = 19
_PIECE = 4096  # bytes
_LOOKS = 100  # at threads that come and go; those of which a tracer has not heard stay


class Stat:
    """Fields of /proc/PID/stat; `start` is in clock ticks since boot, `tty` 0 without one.

    `flags` are the kernel's PF_ flags: a thread of the kernel has PF_KTHREAD. `threads` counts
    those that have ended but that nobody has waited for, the leader among them; it is 0 where the
    thread was gone before it was counted.
    """

    __slots__ = ("flags", "group", "parent", "pid", "session", "start", "state", "threads", "tty")

    def __init__(self, text: bytes) -> None:
        # The name in brackets may hold blanks and brackets; what follows does not.
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
            data += more  # somebody is in thousands of groups
        return data
    finally:
        os.close(descriptor)


def _unseen(pid: int, error: OSError) -> SoscopeError:
    """Return the error of who could not read files of a process in /proc.

    Nothing is known of the process if soscope lacks descriptors or memory, or if /proc hides
    the processes of others (proc(5), hidepid).
    """
    if error.errno in (errno.EACCES, errno.EPERM):
        return NotPermitted(f"/proc does not show process {pid}", errno=error.errno)
    if error.errno in (errno.ENOENT, errno.ESRCH):
        return NoSuchProcess(f"no process {pid}", errno=error.errno)
    reason = (error.strerror or "").lower()
    return SoscopeError(f"cannot look at process {pid}: {reason}", errno=error.errno)


def read_stat(pid: int) -> Stat:
    """Read /proc/PID/stat.

    Raises NoSuchProcess where there is no such process, NotPermitted where it is hidden.
    """
    try:
        return Stat(_slurp(f"/proc/{pid}/stat"))
    except OSError as error:
        raise _unseen(pid, error) from error


def zombie(pid: int, number: int | None = None) -> NoSuchProcess:
    """Make the error that says that a process has ended, and is there for its parent alone."""
    return NoSuchProcess(
        f"process {pid} has ended (a zombie)",
        hint="its parent has not waited for it yet",
        errno=number,
    )


def has_ended(pid: int) -> bool:
    """Return whether no thread of a process is left, or none but a leader that has ended.

    A look at each of its threads could not say that: one of them may have made another
    meanwhile, or have executed a program, and with it taken the leader's number. A leader that
    goes while it is looked at has been waited for, or has made room for such a thread.
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
    """Return the leader of a process, or a thread that lives where the leader has ended.

    Raises NoSuchProcess, for a zombie too.
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
    """Return the state letter of a thread, "X" where it is gone."""
    try:
        return read_stat(tid).state
    except NoSuchProcess:
        return "X"


def running_time(tid: int) -> float | None:
    """Return how many seconds a thread has run; None where it is gone, or nobody says."""
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
    """Read /proc/PID/status: field -> text, without the blanks around it.

    Raises NoSuchProcess where there is no such process.
    """
    try:
        text = os.fsdecode(_slurp(f"/proc/{pid}/status"))
    except OSError as error:
        raise _unseen(pid, error) from error
    return fields_of(text)


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of a text of /proc/PID/status, wherever it was read."""
    fields = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    return fields


def has_shadow_stack(fields: dict[str, str]) -> bool:
    """Return whether a thread with this status compares each return with a stack of its own.

    That is Linux 6.6 and a C library that asks for it. A return address that somebody has
    changed, or a call that he has made up, then kills the process.
    """
    return "shstk" in fields.get("x86_Thread_features", "").split()


def inner_pid(pid: int) -> int:
    """Return the id that a process has in its own pid namespace, `pid` where that is not told."""
    if not is_our_proc():
        return pid
    try:
        numbers = read_status(pid).get("NSpid", "").split()
    except NoSuchProcess:
        return pid  # it has ended
    return int(numbers[-1]) if numbers else pid


def may_trace_setuid() -> bool:
    """Return whether a program that we trace keeps its set-user-id bit (CAP_SYS_PTRACE)."""
    try:
        capabilities = int(read_status(os.getpid()).get("CapEff", "0"), 16)
    except NoSuchProcess:  # no /proc
        return False
    return bool(capabilities >> _CAP_SYS_PTRACE & 1)


def is_our_proc() -> bool:
    """Return whether the numbers in /proc are those by which we know processes.

    They are not where a process namespace has been made and /proc not mounted anew.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:  # no /proc at all: who looks for a process will see
        return True


def namespace(pid: int, kind: str) -> str:
    """Return the name of a namespace of a process ("pid", "mnt", ...), "" where it is not told."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def descendants(pid: int) -> dict[int, int]:
    """Return the living children of a process, theirs, and so on: pid -> parent."""
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
    """Return the threads of a process, none where it is gone."""
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """Return the children of a process, those that have ended among them."""
    pids = []
    for tid in threads(pid):
        try:
            pids += [int(word) for word in _slurp(f"/proc/{pid}/task/{tid}/children").split()]
        except OSError:
            continue  # a thread that has ended
    return pids


def has_memory(pid: int) -> bool:
    """Return whether a process has memory; one that ends has none, long before it is a zombie."""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except FileNotFoundError:
        return False
    except OSError:
        pass  # it may not be looked at
    return True


def program_file(pid: int) -> tuple[int, int] | None:
    """Return device and inode of the program that a process runs, None where it cannot be read.

    They stay the same when the file is renamed, or another one put in its place.
    """
    try:
        file = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return None
    return file.st_dev, file.st_ino


def program_path(pid: int) -> str:
    """Return the path of the program that a process runs, "" where it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""
