# SPDX-License-Identifier: Apache-2.0
"""Read a process's seccomp filters, and compute whether they allow soscope's calls."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from soscope.entry import ptrace, waits
from soscope.entry.isa import arch
from soscope.entry.stopping import Threads
from soscope.errors import NoSuchProcess
from soscope.proc import status
from soscope.proc.status import Refused

# Compute what a seccomp filter returns for a system call, by interpreting its classic BPF.
#
# Unknown words of a call stand for any value: both ways of a jump that depends on them are
# followed, and all possible verdicts are collected. Instructions are defined in
# <linux/bpf_common.h> and <linux/filter.h>, and verdicts in seccomp(2).

ALLOW, LOG, ERRNO = 0x7FFF_0000, 0x7FFC_0000, 0x0005_0000
_ACTION_MASK, _DATA_MASK = 0xFFFF_0000, 0xFFFF
_WORDS = 16  # of the scratch memory, BPF_MEMWORDS
_MASK = 0xFFFF_FFFF
_MOST_STEPS = 50_000
_DATA_SIZE = 64  # struct seccomp_data: nr, arch, instruction_pointer, args[6]
_ARGS = 16

# <linux/bpf_common.h>
_LD, _LDX, _ST, _STX, _ALU, _JMP, _RET, _MISC = range(8)
_W = 0x00
_IMM, _ABS, _MEM, _LEN = 0x00, 0x20, 0x60, 0x80
_X = 0x08  # BPF_SRC
_A = 0x10  # BPF_RVAL of BPF_RET
_TXA = 0x80

_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter

Code = list[tuple[int, int, int, int]]
Word = int | None  # None: any value
State = tuple[int, Word, Word, tuple[Word, ...]]


class TooLong(Exception):  # noqa: N818  it is an answer, not a mistake
    """The filter has too many paths, or is invalid."""


def parse(data: bytes) -> Code:
    """Return the (code, jt, jf, k) of a filter's bytes."""
    return list(_INSTRUCTION.iter_unpack(data[: len(data) // 8 * 8]))


def seccomp_data(number: int, arch: int, arguments: dict[int, int]) -> dict[int, int]:
    """Return the known 32-bit words of a `struct seccomp_data`, by offset.

    `arguments` maps the positions of known arguments to their 64-bit values.
    """
    words = {0: number & _MASK, 4: arch}
    for position, value in arguments.items():
        at = _ARGS + 8 * position
        words[at], words[at + 4] = value & _MASK, value >> 32 & _MASK
    return words


def verdicts_of(code: Code, words: dict[int, int]) -> set[int]:
    """Return all values that the filter may return for a call with these words.

    Raises TooLong.
    """
    values: set[int] = set()
    seen: set[State] = set()
    todo: list[State] = [(0, 0, 0, (0,) * _WORDS)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        if len(seen) > _MOST_STEPS or state[0] >= len(code):
            raise TooLong
        todo += _step(code, words, state, values)
    return values


def _step(code: Code, words: dict[int, int], state: State, values: set[int]) -> list[State]:
    """Return the states after one instruction. A verdict is added to `values`."""
    at, a, x, memory = state
    op, if_true, if_false, k = code[at]
    kind = op & 7
    if kind == _RET:
        value = a if op & 0x18 == _A else k
        if value is None:
            raise TooLong
        values.add(value)
        return []
    if kind == _JMP:
        return [(at + 1 + by, a, x, memory) for by in _jumps(op, if_true, if_false, k, a, x)]
    if kind == _LD:
        a = _load(op, k, words, memory)
    elif kind == _LDX:
        x = _load(op, k, words, memory)
    elif kind in (_ST, _STX):
        value = a if kind == _ST else x
        memory = (*memory[:k], value, *memory[k + 1 :])
    elif kind == _ALU:
        a = _calculate(op, a, x if op & _X else k)
    elif op & 0xF8 == _TXA:
        a = x
    else:
        x = a
    return [(at + 1, a, x, memory)]


def _load(op: int, k: int, words: dict[int, int], memory: tuple[Word, ...]) -> Word:
    mode = op & 0xE0
    if mode == _IMM:
        return k
    if mode == _MEM:
        return memory[k] if k < _WORDS else None
    if mode == _LEN:
        return _DATA_SIZE
    return words.get(k) if mode == _ABS else None


def _jumps(op: int, if_true: int, if_false: int, k: int, a: Word, x: Word) -> set[int]:
    how = op & 0xF0
    if how == 0x00:  # BPF_JA
        return {k}
    other = x if op & _X else k
    if a is None or other is None:
        return {if_true, if_false}
    holds = {0x10: a == other, 0x20: a > other, 0x30: a >= other, 0x40: bool(a & other)}
    if how not in holds:
        raise TooLong
    return {if_true if holds[how] else if_false}


def _calculate(op: int, a: Word, b: Word) -> Word:
    how = op & 0xF0
    if how == 0x50 and 0 in (a, b):  # 0 whatever the other operand is
        return 0
    if a is None or (b is None and how != 0x80):
        return None
    if how == 0x80:  # BPF_NEG
        return -a & _MASK
    assert b is not None
    if how in (0x30, 0x90) and not b:  # division by 0: the kernel makes the filter return 0
        raise TooLong
    results = {
        0x00: lambda: a + b,
        0x10: lambda: a - b,
        0x20: lambda: a * b,
        0x30: lambda: a // b,
        0x40: lambda: a | b,
        0x50: lambda: a & b,
        0x60: lambda: a << b if b < 32 else 0,
        0x70: lambda: a >> b if b < 32 else 0,
        0x90: lambda: a % b,
        0xA0: lambda: a ^ b,
    }
    if how not in results:
        raise TooLong
    return results[how]() & _MASK


def action_of(verdict: int) -> int:
    """Return the action of a verdict."""
    return verdict & _ACTION_MASK


def errno_of(verdict: int) -> int:
    """Return the errno of an ERRNO verdict."""
    return verdict & _DATA_MASK


# System calls made in a process with an agent, and errors that filters may give them.
#
# They include remote calls while the agent is inserted, calls of the agent, and the kernel's call
# for a thread whose wait was interrupted. A test compares the list with the agent's code. An
# argument that is not listed may have any value.

ANY = -1  # as an error: all errors
_PROT_NONE, _READ, _READ_WRITE, _READ_EXEC = 0, 1, 3, 5
_F_DUPFD_CLOEXEC = 1030

_VERBS = {
    0x8000_0000: "kills its process",
    0x0000_0000: "kills its thread",
    0x0003_0000: "sends it SIGSYS",
    0x7FC0_0000: "asks another process",
    0x7FF0_0000: "asks its tracer",
}


class SystemCall:
    """A system call: its number and name.

    `bears` are the errors that a filter may return without harm, because there is another way or
    nothing is lost. `variants` are the known arguments, by position, with a dict for each way in
    which the call is made.
    """

    __slots__ = ("bears", "name", "number", "variants")

    def __init__(self, name: str, bears: tuple[int, ...] = (), *variants: dict[int, int]) -> None:
        self.number = {**arch.LOADER_CALLS, **arch.CALLS}[name]
        self.name = name
        self.bears = bears
        self.variants = variants or ({},)


CALLS = [
    SystemCall("read"),
    SystemCall("open", (ANY,)),  # else pages are briefly made writable
    SystemCall("close"),
    SystemCall("mmap", (), *({2: prot} for prot in (_PROT_NONE, _READ_WRITE, _READ_EXEC))),
    SystemCall("mprotect", (), {2: _READ}, {2: _READ_WRITE}),
    SystemCall("munmap"),
    SystemCall("brk", (ANY,)),  # only asks for the end of the heap
    SystemCall("rt_sigprocmask"),
    SystemCall("pread64"),
    SystemCall("pwrite64", (ANY,)),  # the same as open
    SystemCall("access", (ANY,)),  # else debug information is not searched
    SystemCall("mremap"),
    SystemCall("madvise", (ANY,)),  # only memory or time is lost
    SystemCall("getpid"),
    SystemCall("fcntl", (ANY,), {1: _F_DUPFD_CLOEXEC}),  # else a lower descriptor is used
    SystemCall("gettid"),
    SystemCall("getrusage", (ANY,)),  # else waits for processors are unknown
    SystemCall("futex"),
    SystemCall("restart_syscall"),
    SystemCall("clock_gettime"),
    SystemCall("openat", (ANY,)),  # files may come by pidfd_getfd instead
    SystemCall("process_vm_readv", (errno.EPERM, errno.ENOSYS)),  # else rt_sigprocmask tells
    SystemCall("memfd_create", (ANY,)),  # the same as openat
    SystemCall("pidfd_open", (ANY,)),
    SystemCall("pidfd_getfd", (ANY,)),
]
# System calls of a thread that loads a library. An error makes dlopen fail. The system calls of
# the library itself are not known.
_KNOWN = {
    "mmap": tuple({2: prot} for prot in (_READ, _READ_WRITE, _READ_EXEC)),
    "mprotect": tuple({2: prot} for prot in (_PROT_NONE, _READ, _READ_WRITE)),
}
LOADING = [
    SystemCall(name, () if name in ("futex", "munmap") else (ANY,), *_KNOWN.get(name, ()))
    for name in arch.LOADER_CALLS
]
_NOT_READ = {"read"}  # only a preloaded agent uses it, at a program's start


def objection(filters: list[bytes], *, starts: bool = False) -> str | None:
    """Return a sentence about a call that a thread's filters forbid, None if they forbid none.

    With `starts`, the thread has just executed a program, and waits in no call. `filters` are
    arrays of `struct sock_filter`.
    """
    calls = [
        call
        for call in CALLS
        if call.name not in _NOT_READ and not (starts and call.name == "restart_syscall")
    ]
    return _first_objection(calls, filters)


def objection_to_loading(filters: list[bytes]) -> str | None:
    """Return which call for loading a library these filters do not allow, None if they do."""
    return _first_objection(LOADING, filters)


def _first_objection(calls: list[SystemCall], filters: list[bytes]) -> str | None:
    codes = [parse(data) for data in filters]
    for call in calls:
        for known in call.variants:
            words = seccomp_data(call.number, arch.AUDIT_ARCH, known)
            for code in codes:
                if said := _said(call, code, words):
                    return said
    return None


def _said(call: SystemCall, code: Code, words: dict[int, int]) -> str | None:
    """Return the objection of a filter to a call, None if it allows the call."""
    try:
        verdicts = verdicts_of(code, words)
    except TooLong:
        return f"its seccomp filter is too complicated to tell whether it allows {call.name}"
    bad = [verdict for verdict in verdicts if not _is_borne(call, verdict)]
    if not bad:
        return None
    may = "may depend on arguments, and " if len(verdicts) > 1 else ""
    worst = min(bad, key=_severity)
    if action_of(worst) == ERRNO:
        number = errno_of(worst)
        error = errno.errorcode.get(number, str(number))
        return f"its seccomp filter {may}answers {call.name} with {error}"
    verb = _VERBS.get(action_of(worst), "kills it")
    return f"its seccomp filter {may}{verb} for {call.name}"


def _is_borne(call: SystemCall, verdict: int) -> bool:
    action = action_of(verdict)
    if action in (ALLOW, LOG):
        return True
    return action == ERRNO and (ANY in call.bears or errno_of(verdict) in call.bears)


def _severity(verdict: int) -> int:
    """Return the kernel's order of actions: a signed number, of which the lowest decides."""
    action = action_of(verdict)
    return action - (1 << 32) if action >> 31 else action


# Read the seccomp filters of a process's threads (PTRACE_SECCOMP_GET_FILTER of ptrace(2)).
#
# Only a stopped thread's filters can be read. A stop has an effect: a thread that waits in poll,
# nanosleep or a futex goes on by restart_syscall, and it is not known yet whether its filter allows
# that call. So the thread is made to repeat its own call, which was allowed, with the rest of its
# time-out.

STRICT, FILTER = "1", "2"
_CAP_SYS_ADMIN = 21
_MOST = 4096  # BPF_MAXINSNS
_FILTER_INSTRUCTION = 8  # bytes
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
    if lack := missing_right():
        raise Refused(f"its seccomp filter cannot be read: {lack}")
    return objection(list(of_stopped(tid)), starts=True)


def of_stopped(tid: int) -> tuple[bytes, ...]:
    """Return the filters of a stopped thread that this thread traces.

    Raises Refused if the kernel does not return them.
    """
    filters: list[bytes] = []
    buffer = ctypes.create_string_buffer(_MOST * _FILTER_INSTRUCTION)
    while True:
        try:
            size = ptrace.seccomp_filter(tid, len(filters), buffer)
        except OSError as error:
            if error.errno == errno.ENOENT and filters:
                return tuple(filters)
            raise Refused(f"its seccomp filter cannot be read: {error.strerror}") from error
        filters.append(buffer.raw[: size * _FILTER_INSTRUCTION])


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
