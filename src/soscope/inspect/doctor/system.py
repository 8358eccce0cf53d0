# SPDX-License-Identifier: Apache-2.0
"""What this process may do to others: ptrace, and everything that can forbid it.

The kernel checks, in this order (ptrace(2), "Ptrace access mode checking"): same user in all ids,
or CAP_SYS_PTRACE; the target is dumpable; its capabilities do not exceed ours; then Yama and
other security modules. Reading /proc/PID/mem takes the same checks as attaching.
"""

from __future__ import annotations

import os
import pwd

from soscope.entry import ptrace
from soscope.errors import NoSuchProcess
from soscope.inspect.doctor.finding import INFO, LIMITED, MISSING, OK, Finding
from soscope.proc import status
from soscope.proc.rights import missing_right

CAP_SYS_PTRACE = 19
_INTERESTING = {19: "CAP_SYS_PTRACE", 21: "CAP_SYS_ADMIN", 40: "CAP_CHECKPOINT_RESTORE"}
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_YAMA_SAYS = {
    0: "any process of yours",
    1: "your own children alone; processes that run already are refused",
    2: "administrators alone",
    3: "nobody, until the next start of the system",
}
YAMA_REPAIR = "sudo sysctl kernel.yama.ptrace_scope=0"
CONTAINER_REPAIR = "start the container with --cap-add=SYS_PTRACE"


def findings() -> list[Finding]:
    """Examine the rights of this process."""
    try:
        own = status.read_status(os.getpid())
    except NoSuchProcess:
        return [Finding("rights", MISSING, "not known without /proc", "mount -t proc proc /proc")]
    findings = [_child(), _yama(own), _capabilities(own), _user_namespace(), _pid_namespace()]
    return [*findings, _seccomp(own)]


def yama_scope() -> int | None:
    """Return Yama's ptrace_scope, None if the kernel does not have Yama."""
    try:
        with open(_YAMA, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def capabilities(fields: dict[str, str], which: str = "CapEff") -> int:
    """Return a capability set in /proc/PID/status as bits, 0 if it is missing."""
    try:
        return int(fields.get(which, "0"), 16)
    except ValueError:
        return 0


def in_first_namespace(kind: str) -> bool | None:
    """Return whether we are in the system's first namespace of a kind, None if not known.

    The kernel gives the first namespaces fixed numbers (include/linux/proc_ns.h).
    """
    first = {"user": 0xEFFFFFFD, "pid": 0xEFFFFFFC}[kind]
    try:
        return os.readlink(f"/proc/self/ns/{kind}") == f"{kind}:[{first}]"
    except OSError:
        return None


def user_name(uid: int) -> str:
    """Return a user's name, or "user" and the number if it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _child() -> Finding:
    """Trace a child of soscope as a test."""
    name = "ptrace of own children"
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(write)
            os.read(read, 1)
        finally:
            os._exit(0)
    os.close(read)
    try:
        ptrace.seize(child, ptrace.O_EXITKILL)
    except OSError as error:
        traced = status.read_status(child).get("TracerPid", "0")
        who = f"process {traced} traces it" if traced != "0" else (error.strerror or "").lower()
        text = f"refused: {who}; the agent goes in through LD_PRELOAD, without -f and signals"
        repair = None if traced != "0" else _repair_of_ptrace()
        return Finding(name, LIMITED, text, repair)
    finally:
        os.close(write)
        os.waitpid(child, 0)
    return Finding(name, OK, "tried and allowed: soscope trace COMMAND can put the agent in")


def _repair_of_ptrace() -> str:
    if (yama_scope() or 0) >= 2:
        return YAMA_REPAIR
    if in_container():
        return "start the container with --cap-add=SYS_PTRACE --security-opt seccomp=unconfined"
    return "allow the system call ptrace in the seccomp filter or security module"


def in_container() -> bool:
    """Return whether this looks like a container, by marker files and the pid namespace."""
    marks = ("/.dockerenv", "/run/.containerenv")
    return any(map(os.path.exists, marks)) or in_first_namespace("pid") is False


def _yama(own: dict[str, str]) -> Finding:
    scope = yama_scope()
    if scope is None:
        return Finding("Yama", OK, "not in this kernel")
    text = f"ptrace_scope {scope}: {_YAMA_SAYS.get(scope, 'unknown')}"
    if scope == 0:
        return Finding("Yama", OK, text)
    if capabilities(own) >> CAP_SYS_PTRACE & 1 and scope < 3:
        return Finding("Yama", OK, f"{text}; you have CAP_SYS_PTRACE, which passes")
    repair = YAMA_REPAIR if scope < 3 else "set kernel.yama.ptrace_scope in sysctl.d and reboot"
    return Finding("Yama", LIMITED, text, repair)


def _capabilities(own: dict[str, str]) -> Finding:
    has = capabilities(own)
    names = [name for bit, name in _INTERESTING.items() if has >> bit & 1]
    name = "capabilities"
    if has >> CAP_SYS_PTRACE & 1:
        where = "" if in_first_namespace("user") is not False else " of this user namespace"
        return Finding(name, OK, f"{', '.join(names)}: processes of every user{where}")
    who = user_name(os.geteuid())
    text = f"without CAP_SYS_PTRACE: only processes of {who} that are dumpable"
    repair = CONTAINER_REPAIR if not os.geteuid() else "sudo soscope …"
    return Finding(name, INFO, text, repair)


def _user_namespace() -> Finding:
    name = "user namespace"
    first = in_first_namespace("user")
    if first is None:
        return Finding(name, INFO, "not known: /proc/self/ns cannot be read")
    if first:
        return Finding(name, OK, "the system's first")
    text = "a nested one: processes outside of it are refused, even to its root"
    return Finding(name, INFO, text)


def _pid_namespace() -> Finding:
    name = "PID namespace"
    first = in_first_namespace("pid")
    if first is None:
        return Finding(name, INFO, "not known: /proc/self/ns cannot be read")
    if first:
        return Finding(name, OK, "the system's first: every process has a number here")
    return Finding(name, INFO, "a nested one: processes outside of it have no number here")


def _seccomp(own: dict[str, str]) -> Finding:
    name = "seccomp"
    mode = own.get("Seccomp", "0")
    if mode == "0":
        return Finding(name, OK, "no filter on this process")
    count = own.get("Seccomp_filters", "?")
    text = f"{count} filter(s) on this process: what it forbids shows above and below"
    return Finding(name, INFO, text)


# ---- rights to one process -----------------------------------------------------------


def why_refused(pid: int) -> tuple[str, str | None]:
    """Return why the kernel refuses access to process `pid`, and a command that helps."""
    error = missing_right(pid, "the memory", None)
    why = error.message.partition(": ")[2]
    if "Yama" in why:
        return why, YAMA_REPAIR
    return why, "sudo soscope …" if os.geteuid() else error.hint


def other_namespace(pid: int, kind: str) -> bool:
    """Return whether a process is known to be in another namespace of a kind than soscope."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return False
