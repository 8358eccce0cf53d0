# SPDX-License-Identifier: Apache-2.0
"""The system calls that are made in a process with an agent, and what a filter may say to them.

All of them: by remote calls while the agent goes in, by the agent, and by the kernel for a
thread whose wait was interrupted. A test compares the list with the agent's code. What is not
said of an argument may be any value.
"""

from __future__ import annotations

import errno

from soscope.entry.isa import arch
from soscope.entry.seccomp import bpf

ANY = -1  # of the errors: all of them
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

    `bears` are the errors that a filter may give without harm, because there is another way
    or nothing is lost. `variants` are the known arguments, by position, one dict for each way
    in which the call is made.
    """

    __slots__ = ("bears", "name", "number", "variants")

    def __init__(self, name: str, bears: tuple[int, ...] = (), *variants: dict[int, int]) -> None:
        self.number = {**arch.LOADER_CALLS, **arch.CALLS}[name]
        self.name = name
        self.bears = bears
        self.variants = variants or ({},)


CALLS = [
    SystemCall("read"),
    SystemCall("open", (ANY,)),  # else pages are made writable for a moment
    SystemCall("close"),
    SystemCall("mmap", (), *({2: prot} for prot in (_PROT_NONE, _READ_WRITE, _READ_EXEC))),
    SystemCall("mprotect", (), {2: _READ}, {2: _READ_WRITE}),
    SystemCall("munmap"),
    SystemCall("brk", (ANY,)),  # asked for nothing but where the heap ends
    SystemCall("rt_sigprocmask"),
    SystemCall("pread64"),
    SystemCall("pwrite64", (ANY,)),  # as open
    SystemCall("access", (ANY,)),  # else debug information is not looked for
    SystemCall("mremap"),
    SystemCall("madvise", (ANY,)),  # nothing but memory or time is lost
    SystemCall("getpid"),
    SystemCall("fcntl", (ANY,), {1: _F_DUPFD_CLOEXEC}),  # else a lower descriptor does
    SystemCall("gettid"),
    SystemCall("getrusage", (ANY,)),  # else nobody knows what threads waited for a processor
    SystemCall("futex"),
    SystemCall("restart_syscall"),
    SystemCall("clock_gettime"),
    SystemCall("openat", (ANY,)),  # our files can come by pidfd_getfd, or be made there
    SystemCall("process_vm_readv", (errno.EPERM, errno.ENOSYS)),  # else rt_sigprocmask tells
    SystemCall("memfd_create", (ANY,)),  # as openat
    SystemCall("pidfd_open", (ANY,)),
    SystemCall("pidfd_getfd", (ANY,)),
]
# What a thread calls that loads a library; an error is one of dlopen's then. What the library
# calls itself nobody knows.
_KNOWN = {
    "mmap": tuple({2: prot} for prot in (_READ, _READ_WRITE, _READ_EXEC)),
    "mprotect": tuple({2: prot} for prot in (_PROT_NONE, _READ, _READ_WRITE)),
}
LOADING = [
    SystemCall(name, () if name in ("futex", "munmap") else (ANY,), *_KNOWN.get(name, ()))
    for name in arch.LOADER_CALLS
]
_NOT_READ = {"read"}  # only a preloaded agent does, at a program's start


def objection(filters: list[bytes], *, starts: bool = False) -> str | None:
    """Say which call the filters of a thread do not allow, None where they allow all.

    `starts`: the thread has just executed a program, and waits in no call. `filters` are
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
    """Say which call that loads a library these filters do not allow, None where they do."""
    codes = [bpf.parse(data) for data in filters]
    for call in LOADING:
        for known in call.variants:
            words = bpf.call(call.number, arch.AUDIT_ARCH, known)
            for code in codes:
                if said := _said(call, code, words):
                    return said
    return None


def _said(call: SystemCall, code: bpf.Code, words: dict[int, int]) -> str | None:
    """Return what a filter says against a call, None where it lets it pass."""
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
    """Return the order of actions in the kernel: a signed number, the least one decides."""
    action = bpf.action(verdict)
    return action - (1 << 32) if action >> 31 else action
