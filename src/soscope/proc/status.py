# SPDX-License-Identifier: Apache-2.0
"""The state of processes and threads: /proc/PID/stat, status, schedstat, and their signals."""

from __future__ import annotations

import errno
import os
import time

from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError

TYPE_CHECKING = False


# Read which features the processor has and the kernel lets programs use.

_ENOUGH = 4096  # bytes, enough for the first processor: text for hundreds is slow


def has_xsave() -> bool:
    """Return whether the processor has XSAVE; False if /proc/cpuinfo cannot be read."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            lines = file.read(_ENOUGH).splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith(b"flags")), b"")
    return b"xsave" in flags.split()


# How long threads of a process have run, read cheaply enough for many reads a second.

_ACCOUNT_BYTES = 64  # bytes
_MOST_KEPT = 400  # threads whose files stay open; the usual limit is 1024 descriptors
_RUNNING = b"running"  # start of the file `syscall` of a thread that is not blocked
_CLOCK = 2  # CPUCLOCK_SCHED of linux/posix-timers_types.h


def process_ns(pid: int) -> int:
    """Return how many ns all threads of a process have run, including threads that have ended.

    The time of a thread that has a processor is as of the last tick, or of the last time that the
    process asked for its own time (kernel/sched/cputime.c: thread_group_cputime). Raises OSError
    where it is gone.
    """
    return time.clock_gettime_ns(~pid << 3 | _CLOCK)


def machine_ns() -> tuple[int, int]:
    """Return for how many ns this machine's host has used its processors, and the time of them all.

    The first is 0 where there is no host, or where the host does not tell: see `steal` in proc(5).
    Both are 0 where there is no /proc.
    """
    try:
        with open("/proc/stat", "rb") as file:
            ticks = list(map(int, file.readline().split()[1:9]))
    except (OSError, ValueError):
        return 0, 0
    rate = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return (ticks[7] * rate if len(ticks) == 8 else 0), sum(ticks) * rate


_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class ThreadAccount:
    """The CPU time of one thread; raises OSError if it is gone or the kernel keeps no account."""

    __slots__ = ("_call", "_descriptor", "_folder", "born")

    kept = 0  # accounts whose files are open

    def __init__(self, pid: int, tid: int) -> None:
        self.born = time.monotonic_ns()  # another thread may get the id later
        self._folder = f"/proc/{pid}/task/{tid}"
        self._descriptor = self._call = -1
        if ThreadAccount.kept < _MOST_KEPT:
            self._descriptor = os.open(f"{self._folder}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            ThreadAccount.kept += 1

    def close(self) -> None:
        """Close the account's files; may be called twice."""
        ThreadAccount.kept -= self._descriptor >= 0
        for descriptor in (self._descriptor, self._call):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._call = -1

    def look(self) -> tuple[int, int, int]:
        """Return how many ns it has run and waited to run, and how often it got a processor.

        The first is as of the last tick, or the last time that the thread asked for its own time,
        while it has a processor; the second as of when it got one last.
        """
        ran, waited, times = self._read("schedstat", self._descriptor).split(b" ")
        return int(ran), int(waited), int(times)

    def kernel_ns(self) -> int:
        """Return how many ns it has run in the kernel, in whole ticks of USER_HZ (proc(5), stat).

        Most kernels find that out by looking at the thread at each tick of the clock.
        """
        _, _, tail = _slurp(f"{self._folder}/stat").rpartition(b")")
        return int(tail.split()[12]) * _TICK_NS

    def waits(self) -> bool:
        """Return whether the thread waits in a system call, or does not run for other reasons."""
        if self._descriptor >= 0 > self._call:
            self._call = os.open(f"{self._folder}/syscall", os.O_RDONLY | os.O_CLOEXEC)
        return self._read("syscall", self._call)[:1] != _RUNNING[:1]

    def _read(self, name: str, descriptor: int) -> bytes:
        if descriptor >= 0:
            return os.pread(descriptor, _ACCOUNT_BYTES, 0)
        descriptor = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _ACCOUNT_BYTES)
        finally:
            os.close(descriptor)


# Control groups whose processes are frozen, as by `docker pause`.
#
# A tracer can stop the threads of frozen processes, but they run no instruction afterwards (Linux,
# Documentation/admin-guide/cgroup-v2.rst, "cgroup.events").


def frozen_group(pid: int) -> str:
    """Return the folder of the frozen control group that a process is in, "" if there is none."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            groups = [line[3:].strip() for line in file if line.startswith(b"0::")]
        with open("/proc/self/mountinfo", "rb") as file:
            places = [line.split()[4] for line in file if b" - cgroup2 " in line]
        for group in groups:
            for place in places:
                folder = place + group.rstrip(b"/")
                with open(folder + b"/cgroup.events", "rb") as file:
                    if b"frozen 1\n" in file.read():
                        return folder.decode(errors="replace")
    except OSError:
        return ""  # the root group, which is never frozen, or a hidden one
    return ""


# Why a program runs without the agent, in the words that reports print.

STATIC = "static"
VALGRIND = "valgrind"
SETUID = "setuid"
SETUID_LOST = "setuid, traced"
FOREIGN = "foreign architecture"
UNREADABLE = "not readable"
NO_AGENT = "no agent for this machine"
SECCOMP = "seccomp filter"
UNKNOWN_LOADER = "unknown loader"
BY_LOADER = "started by its loader"
LOCKS = "mlockall"
NOT_FOLLOWED = "not followed"
LET_GO = "let go of"
ENDED = "ended while it was loaded"
DAMAGED_LIST = "its list of libraries has no end"
MEDDLED = "another process has changed its shared memory"
NO_PTRACE = "no ptrace"  # followed by ": " and the system's reason

_SAID = {
    STATIC: "it is statically linked, so its calls go through no slots:"
    " strace shows its system calls, soscope prof run its functions by samples",
    VALGRIND: "valgrind runs a translation of its program, which soscope cannot go into",
    SETUID: "it gained privileges when it started",
    FOREIGN: "it is made for another architecture",
    NO_AGENT: "no agent is made for this machine",
    SECCOMP: "its seccomp filter has to be asked first; soscope trace -p does so",
    BY_LOADER: "it is a loader, and has started no program that can be seen",
    UNKNOWN_LOADER: "its loader is of an unknown kind",
    NOT_FOLLOWED: "what a command starts is followed with -f",
}

# reasons of programs whose functions are sampled all the same
NOT_HOOKED = {
    STATIC: "it is statically linked, so its calls go through no slots and are not counted:"
    " strace shows its system calls",
    SECCOMP: "its calls are not counted: its seccomp filter has to be asked first",
    UNKNOWN_LOADER: "its calls are not counted: its loader is of an unknown kind",
}


def static(path: str) -> str:
    """Return the reason why no function of the static program at `path` can be hooked."""
    # valgrind's tools are in a folder of this name, wherever valgrind is installed
    return VALGRIND if os.path.basename(os.path.dirname(path)) == VALGRIND else STATIC


class Refused(Exception):  # noqa: N818  it is an answer, not a mistake
    """The agent cannot be put into this program; the program runs on unchanged.

    `reason` is one of this module's constants, or begins with one.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def in_full(reason: str) -> str:
    """Return the reason of a refusal as a full sentence."""
    return _SAID.get(reason, reason)


# Numbers and names of signals without importing `signal`, because each millisecond counts.
#
# `signal` wraps the interpreter's own module in enumerations, whose import takes longer than
# everything that soscope does with signals before a program starts. Numbers are plain integers.
# `signal` is imported only to get names, as it takes 4 ms.

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

__all__ = ["signal"]  # what others import from here


def heeded(numbers: tuple[int, ...]) -> set[int]:
    """Return the signals of `numbers` that soscope's parent has not set to be ignored.

    sigtimedwait(2) takes a blocked signal even if it is ignored (`nohup`, `&` in a script).
    """
    return {number for number in numbers if signal.getsignal(number) != signal.SIG_IGN}


def signal_name(number: int) -> str:
    """Return the name of a signal: SIGTERM, SIGRTMIN+2."""
    from signal import SIGRTMAX, SIGRTMIN, Signals

    try:
        return Signals(number).name
    except ValueError:  # a real-time signal, or an invalid number
        return f"SIGRTMIN+{number - SIGRTMIN}" if SIGRTMIN < number < SIGRTMAX else f"SIG{number}"


ENDED_STATES = "ZX"  # states of threads that have ended

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
            return stat.state in ENDED_STATES and stat.threads == 1
    return False


def living_thread(pid: int) -> int:
    """Return the leader of a process, or a thread that lives if the leader has ended.

    Raises NoSuchProcess, also for a zombie.
    """
    for _ in range(_LOOKS):
        if read_stat(pid).state not in ENDED_STATES:
            return pid
        for tid in threads(pid):
            if state_of(tid) not in ENDED_STATES:
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
    """Return whether the process ids in /proc belong to soscope's own pid namespace.

    They do not if a new pid namespace was made and /proc was not mounted again.
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
    """Return the children of a process, including children that have ended."""
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


# Find processes by name, as `pgrep -x` does: by comm, or by the file that they run.

_DELETED = " (deleted)"


def processes_named(name: str) -> list[int]:
    """Return the ids of the living processes that have this name, sorted, without soscope itself.

    A name is the comm of the process (15 characters, which the process may change), or the last
    part of its program's path.
    """
    pids = []
    for word in os.listdir("/proc"):
        if word.isdigit() and int(word) != os.getpid() and name in _names(word):
            pid = int(word)
            if not has_ended(pid):
                pids.append(pid)
    return sorted(pids)


def _names(pid: str) -> list[str]:
    called = comm(int(pid))
    if not called:
        return []  # the process or thread has ended
    names = [called]
    path = program_path(int(pid))
    if path:
        names.append(os.path.basename(path.removesuffix(_DELETED)))
    return names


def comm(pid: int) -> str:
    """Return the comm of a process, "" if there is no such process.

    A zombie still has its comm, until its parent has waited for it.
    """
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return os.fsdecode(file.read()).removesuffix("\n")
    except OSError:
        return ""  # its parent has waited for it


def command_line(pid: int) -> str:
    """Return the command line of a process; its program's path if the command line is empty."""
    return " ".join(command_words(pid))


def command_words(pid: int) -> list[str]:
    """Return the words of a process's command line; its program's path if that is empty."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).rstrip("\0")
    except OSError:
        words = ""  # the process or thread has ended
    return (words or program_path(pid)).split("\0")
