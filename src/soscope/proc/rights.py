# SPDX-License-Identifier: Apache-2.0
"""Find which right is missing if the kernel does not let soscope look into a process.

The kernel only returns EPERM or EACCES. Its rule (ptrace(2), "Ptrace access mode checking") asks
for the same user and group ids, a "dumpable" memory, no capability that soscope lacks, and
whatever Yama or another security module adds. CAP_SYS_PTRACE in the user namespace of the process
is enough, too.
"""

from __future__ import annotations

import errno
import os

from soscope.errors import NoSuchProcess, NotPermitted
from soscope.proc.status import read_status, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_AS_ROOT = "run soscope as root, or give it CAP_SYS_PTRACE"


def missing_right(pid: int, what: str, number: int | None) -> NotPermitted:
    """Make the error for refused access to `what` of a process; `number` is the errno."""
    reason, hint = _reason(pid)
    return NotPermitted(f"{what} of process {pid}: {reason}", hint=hint, errno=number)


def refused_calls() -> list[str]:
    """Return which of the system calls that soscope always needs are refused, by trying them.

    A seccomp filter does that, as of a container or a service. The trials have no effect.
    """
    trials: dict[str, Callable[[], object]] = {
        "wait4": lambda: os.waitpid(os.getpid(), os.WNOHANG),
        "rt_sigtimedwait": lambda: signal.sigtimedwait((), 0),
        "rt_sigprocmask": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "pread64": lambda: os.pread(-1, 0, 0),
        "pwrite64": lambda: os.pwrite(-1, b"", 0),
        "kill": lambda: os.kill(os.getpid(), 0),
        "waitid": lambda: os.waitid(os.P_PID, os.getpid(), os.WEXITED | os.WNOHANG),
    }
    refused = []
    for name, trial in trials.items():
        try:
            trial()
        except OSError as error:  # ECHILD and EBADF are the usual answers
            if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                refused.append(name)
    return refused


def refused_call(error: OSError) -> NotPermitted:
    """Make the error for a system call of soscope's own that was refused."""
    names = refused_calls()
    what = f"system call {', '.join(names)}" if names else "a system call of soscope"
    of = f" ('{error.filename}')" if error.filename else ""
    return NotPermitted(
        f"{what}: {os.strerror(error.errno or errno.EPERM).lower()}{of}",
        hint="a seccomp filter, as of a container or a service, may refuse it; run soscope outside,"
        " or with a filter that allows it",
        errno=error.errno,
    )


def _reason(pid: int) -> tuple[str, str]:
    """Return the missing right, and a hint for the user."""
    try:
        theirs, ours = read_status(pid), read_status(os.getpid())
        # /proc/PID always belongs to the process's user; this file does not if it is not dumpable
        owner = os.stat(f"/proc/{pid}/status").st_uid
    except (NoSuchProcess, OSError):
        return "permission denied", _AS_ROOT
    users, groups = _ids(theirs, "Uid"), _ids(theirs, "Gid")
    user, group = os.geteuid(), os.getegid()
    if user != 0 and set(users[:3]) != {user}:
        if user in users[:3]:
            return f"it runs set-user-id ({_named(users[1])})", _AS_ROOT
        name = _named(users[0])
        whom = "root" if not users[0] else f"{name} or root"
        return f"it belongs to {name}", f"run soscope as {whom}, or with CAP_SYS_PTRACE"
    if user != 0 and set(groups[:3]) != {group}:
        return f"its group ids are not ours ({group})", _AS_ROOT
    if user != 0 and owner != users[1]:
        return "it is not dumpable (PR_SET_DUMPABLE, or its program may not be read)", _AS_ROOT
    theirs_only = _mask(theirs, "CapPrm") & ~_mask(ours, "CapPrm")
    if user != 0 and theirs_only:
        return f"it has capabilities that soscope lacks ({theirs_only:#x})", _AS_ROOT
    scope = _yama()
    if scope == 1 and user != 0:
        return (
            "Yama allows this only to its ancestors (kernel.yama.ptrace_scope is 1)",
            "sysctl kernel.yama.ptrace_scope=0, or run soscope as root",
        )
    if scope >= 2:
        return (
            f"Yama forbids it (kernel.yama.ptrace_scope is {scope})",
            _AS_ROOT if scope == 2 else "only a reboot takes ptrace_scope 3 back",
        )
    if _user_namespace(pid) != _user_namespace(os.getpid()):
        return (
            "it is in another user namespace, where soscope has no CAP_SYS_PTRACE",
            "run soscope outside of the container, or as root of that namespace",
        )
    if user == 0 and not _mask(ours, "CapEff") >> 19 & 1:
        return (
            "soscope is root without CAP_SYS_PTRACE",
            "start the container with --cap-add SYS_PTRACE",
        )
    if ours.get("Seccomp", "0") != "0":
        return "refused, probably by the seccomp filter that soscope runs under", _AS_ROOT
    return "refused by a security module", "look into the audit log of SELinux or AppArmor"


def _ids(status: dict[str, str], field: str) -> list[int]:
    """Return the real, effective, saved and file-system ids."""
    return [int(word) for word in status.get(field, "").split()]


def _mask(status: dict[str, str], field: str) -> int:
    return int(status.get(field, "0"), 16)


def _named(uid: int) -> str:
    """Return the name of a user, or the number if it has no name."""
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _yama() -> int:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def _user_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return ""
