# SPDX-License-Identifier: Apache-2.0
"""What a started program gets from soscope, and is: its environment, its user, its end."""

from __future__ import annotations

import os

from soscope.entry.agent.install import Blob
from soscope.errors import LaunchError
from soscope.wire.block import ControlBlock

# The environment of a started program: exactly the one that soscope was given.
#
# Python changes its own environment: in the C locale it sets LC_CTYPE (PEP 538), and `os.environb`
# drops entries without `=` and repeated names. The kernel still has what exec passed.

_COERCED = (b"C.UTF-8", b"C.utf8", b"UTF-8")


def _mapping(entries: list[bytes]) -> dict[bytes, bytes]:
    """Return the mapping that Python makes of the entries: the first entry of a name counts."""
    mapping: dict[bytes, bytes] = {}
    for entry in entries:
        at = entry.find(b"=", 1)
        if at > 0:
            mapping.setdefault(entry[:at], entry[at + 1 :])
    return mapping


def entries(given: bytes | None, current: dict[bytes, bytes]) -> list[bytes]:
    """Return the environment entries for the new program.

    `given` is the content of /proc/self/environ, or None if it cannot be read. `current` is
    Python's environment. If the calling program has changed its environment, its changes count.
    """
    if given is not None:
        raw = given.split(b"\0")[:-1]
        before = _mapping(raw)
        if b"LC_CTYPE" not in before and current.get(b"LC_CTYPE") in _COERCED:
            current = {name: value for name, value in current.items() if name != b"LC_CTYPE"}
        if before == current:
            return raw
    return [name + b"=" + value for name, value in current.items()]


def packed(environ: dict[str, str]) -> list[bytes]:
    """Return the entries of an environment that the caller has made."""
    return [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in environ.items()]


def inherited() -> list[bytes]:
    """Return the entries that an untraced program would inherit from soscope's parent."""
    given = None
    try:
        with open("/proc/self/environ", "rb", buffering=0) as file:
            given = file.read()
    except OSError:
        pass  # no /proc: use Python's environment
    return entries(given, dict(os.environb))


# The exit status or the fatal signal of a program.


class ExitStatus:
    """An exit status, or the number of the signal that killed the process. One of them is None."""

    __slots__ = ("signal", "status")

    def __init__(self, status: int | None, signal: int | None) -> None:
        self.status = status
        self.signal = signal

    @classmethod
    def of_wait(cls, status: int) -> ExitStatus:
        """Make it from the wait status of a process that has ended."""
        if os.WIFSIGNALED(status):
            return cls(None, os.WTERMSIG(status))
        return cls(os.WEXITSTATUS(status), None)

    def __repr__(self) -> str:
        """Show both fields."""
        return f"ExitStatus(status={self.status}, signal={self.signal})"


# Insert the agent by LD_PRELOAD if ptrace is forbidden: the loader maps it.
#
# The agent starts before the constructors of all other images. It removes the entries made here
# from the new process's environment again (`native/agent/entry/preload.c`), so that programs
# executed later get the environment that they would have got. Only the command itself is traced
# with this method.

NOTE = "the agent went in through LD_PRELOAD; signals and executed programs are not seen"
NOT_STARTED = "its loader did not start the agent named in LD_PRELOAD"

_PRELOAD = b"LD_PRELOAD="
_FOLDER = "/proc/self/fd"  # of the new process; its loader opens the agent there


def is_possible() -> bool:
    """Return whether a loader finds inherited files in /proc. Without it the loader complains."""
    return os.path.isdir(_FOLDER)


def environment(
    entries: list[bytes], descriptors: tuple[int, ...], blob: Blob, block: ControlBlock
) -> list[bytes]:
    """Return `entries` with the entries that make the loader start the agent.

    `descriptors` are the numbers of (blob, control block, plan) that the process inherits, and
    the number of the file of `block.execs` if there is one. A value of LD_PRELOAD that the user
    has set is kept, behind the agent. Two entries are always added: the agent removes as many, so
    that the auxiliary vector behind them stays aligned.
    """
    agent = f"{_FOLDER}/{descriptors[0]}".encode()
    is_taken = any(entry.startswith(_PRELOAD) for entry in entries)
    strip = len(agent) + 1 if is_taken else 0
    execs = descriptors[3] + 1 if block.execs is not None else 0
    numbers = (
        *(*descriptors[:3], execs),
        *(blob.pages_offset, block.target_size, block.plan.size, strip),
    )
    ours = [b"SOSCOPE_PRELOAD=" + b",".join(b"%d" % number for number in numbers)]
    ours.append(b"SOSCOPE_PRELOAD_=" if is_taken else _PRELOAD + agent)
    theirs = [
        _PRELOAD + agent + b":" + entry[len(_PRELOAD) :] if entry.startswith(_PRELOAD) else entry
        for entry in entries
    ]
    return theirs + ours


# Another user than soscope's, as which the command will run.


class User:
    """A user of the system, by name: id, group, and all groups."""

    __slots__ = ("_gid", "_groups", "_uid")

    def __init__(self, name: str) -> None:
        """Look the user up here, not in a forked process. Raises LaunchError."""
        import pwd

        try:
            entry = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise LaunchError(f"-u: there is no user '{name}'") from None
        self._uid, self._gid = entry.pw_uid, entry.pw_gid
        self._groups = os.getgrouplist(name, entry.pw_gid)
        if os.geteuid() and (self._uid, self._gid) != (os.getuid(), os.getgid()):
            raise LaunchError(f"-u {name}: only root may run a command as another user")

    def become(self) -> None:
        """Become that user. Raises OSError."""
        if not os.geteuid():
            os.setgroups(self._groups)
        os.setresgid(self._gid, self._gid, self._gid)
        os.setresuid(self._uid, self._uid, self._uid)
