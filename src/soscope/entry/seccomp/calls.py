# SPDX-License-Identifier: Apache-2.0
"""System calls made in a process with an agent, and errors that filters may give them.

They include remote calls while the agent is inserted, calls of the agent, and the kernel's call
for a thread whose wait was interrupted. A test compares the list with the agent's code. An
argument that is not listed may have any value.
"""

from __future__ import annotations

import errno

from soscope.entry.isa import arch
from soscope.entry.seccomp import bpf

ANY = -1  # as an error: all errors
_PROT_NONE, _READ, _READ_WRITE, _READ_EXEC = 0, 1, 3, 5
_F_DUPFD_CLOEXEC = 1030

_VERBS = {
    0x8000_0000: "kills its process",
    0x0000_0000: "kills its thread",
    0x0003_0000: "sends it SIGSYS",
    0x7FC0_0000: "asks somebody else",
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
    codes = [bpf.parse(data) for data in filters]
    for call in CALLS:
        if call.name in _NOT_READ or (starts and call.name == "restart_syscall"):
            continue
        for known in call.variants:
            words = bpf.call(call.number, arch.AUDIT_ARCH, known)
            for code in codes:
                if said := _said(call, code, words):
                    return said
    return None


def objection_to_loading(filters: list[bytes]) -> str | None:
    """Return which call for loading a library these filters do not allow, None if they do."""
    codes = [bpf.parse(data) for data in filters]
    for call in LOADING:
        for known in call.variants:
            words = bpf.call(call.number, arch.AUDIT_ARCH, known)
            for code in codes:
                if said := _said(call, code, words):
                    return said
    return None


def _said(call: SystemCall, code: bpf.Code, words: dict[int, int]) -> str | None:
    """Return the objection of a filter to a call, None if it allows the call."""
    try:
        verdicts = bpf.verdicts(code, words)
    except bpf.TooLong:
        return f"its seccomp filter is too complicated to tell whether it allows {call.name}"
    bad = [verdict for verdict in verdicts if not _is_borne(call, verdict)]
    if not bad:
        return None
    may = "may depend on arguments, and " if len(verdicts) > 1 else ""
    worst = min(bad, key=_severity)
    if bpf.action(worst) == bpf.ERRNO:
        number = bpf.errno_of(worst)
        error = errno.errorcode.get(number, str(number))
        return f"its seccomp filter {may}answers {call.name} with {error}"
    verb = _VERBS.get(bpf.action(worst), "kills it")
    return f"its seccomp filter {may}{verb} for {call.name}"


def _is_borne(call: SystemCall, verdict: int) -> bool:
    action = bpf.action(verdict)
    if action in (bpf.ALLOW, bpf.LOG):
        return True
    return action == bpf.ERRNO and (ANY in call.bears or bpf.errno_of(verdict) in call.bears)


def _severity(verdict: int) -> int:
    """Return the kernel's order of actions: a signed number, of which the lowest decides."""
    action = bpf.action(verdict)
    return action - (1 << 32) if action >> 31 else action
