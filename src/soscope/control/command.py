# SPDX-License-Identifier: Apache-2.0
"""A command to run: its program, its environment, its user, and its exit status."""

from __future__ import annotations

import errno
import os
import stat

from soscope.binfmt.elf.image import ElfImage
from soscope.control.program import Program
from soscope.entry.agent.install import Blob
from soscope.entry.isa import arch
from soscope.entry.loader import is_loader, program_of
from soscope.errors import FormatError, LaunchError
from soscope.model.record import Record
from soscope.proc import status
from soscope.proc.memory import ProcessMemory
from soscope.proc.status import comm
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


class ExitStatus(Record):
    """An exit status, or the number of the signal that killed the process. One of them is None."""

    status: int | None
    signal: int | None

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

PRELOAD_NOTE = "the agent went in through LD_PRELOAD; signals and executed programs are not seen"
PRELOAD_NOT_STARTED = "its loader did not start the agent named in LD_PRELOAD"

_PRELOAD = b"LD_PRELOAD="
_FOLDER = "/proc/self/fd"  # of the new process; its loader opens the agent there


def can_preload() -> bool:
    """Return whether a loader finds inherited files in /proc. Without it the loader complains."""
    return os.path.isdir(_FOLDER)


def preload_environment(
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


# Find the program that the kernel will run for the words of a command, before it runs.
#
# The search is the one of execvp(3). Whether a program is static, set-user-id and so on has to be
# known before the exec: a set-user-id program that is traced runs without its privileges.

_SHELL = b"/bin/sh"
_DEFAULT_PATH = b"/bin:/usr/bin"  # confstr(_CS_PATH), used if the environment has no PATH
_HEAD = 256  # bytes in which the kernel looks for a script's interpreter
_PAGE = 4096
_MAX_SCRIPTS = 5  # levels of scripts as interpreters, as in the kernel


class Command:
    """A command that can be started.

    `arguments` and `files` are bytes. exec tries `files` in order, in the directory `cwd` (None:
    the directory of soscope) with the environment entries `environ`. `program` is the path of the
    program that will probably run: the interpreter if the file is a script, the loaded program if
    the file is a loader. `reason` tells why the program can take no agent, or is None if it can.
    `is_by_loader` is set if a loader is told to start the program. `is_text` marks a file without
    `#!`, which the shell will run. `user` is the user that runs it, or None for the user that
    runs soscope.
    """

    __slots__ = (
        "arguments",
        "cwd",
        "environ",
        "files",
        "is_by_loader",
        "is_text",
        "program",
        "reason",
        "user",
    )

    def __init__(
        self,
        words: list[str],
        cwd: str | None = None,
        environ: dict[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        """Find the command in the PATH of `environ`, as seen from directory `cwd`.

        `environ` None means soscope's own environment. Raises LaunchError if the command is not
        found or not executable, if `cwd` is no directory, if there is no such `user`, or if
        soscope may not become that user.
        """
        self.arguments = [os.fsencode(word) for word in words]
        self.user: User | None = None
        if user is not None:
            self.user = User(user)
        self.cwd = None if cwd is None else os.fsencode(cwd)
        self.environ = inherited() if environ is None else packed(environ)
        place = self.cwd or b""
        if place and not os.path.isdir(place):
            reason = os.strerror(_no_directory(place)).lower()
            raise LaunchError(f"cannot run '{words[0]}' in '{cwd}': {reason}")
        path = os.environb.get(b"PATH") if environ is None else _path(environ)
        self.files = _find(words[0], self.arguments[0], place, path)
        self.is_text = self.is_by_loader = False
        self.program, self.reason = self._look(os.path.join(place, self.files[0]))

    def _look(self, file: bytes) -> tuple[str, str | None]:
        head: bytes | None = b""
        for _ in range(_MAX_SCRIPTS):
            head = _head(file)
            if head is None:
                return _real(file), status.UNREADABLE
            if not head.startswith(b"#!"):
                break
            interpreter = _interpreter(head)
            if not interpreter:
                break
            file = os.path.join(self.cwd or b"", interpreter)
        if head is not None and not head.startswith(b"\x7fELF") and is_text(head):
            self.is_text = True
            file = _SHELL
        reason = reason_without_agent(file)
        if reason == status.BY_LOADER:
            program = program_of([os.fsdecode(word) for word in self.arguments])
            if program is not None:
                self.is_by_loader = True
                file = os.path.join(self.cwd or b"", os.fsencode(program))
                reason = reason_without_agent(file)
        return _real(file), reason


def _interpreter(head: bytes) -> bytes:
    """Return the interpreter in a `#!` line, or b"" if the kernel does not accept it."""
    line, newline, _ = head[2:].partition(b"\n")
    name = line.lstrip(b" \t")
    for end in (b" ", b"\t", b"\0"):
        name = name.split(end, 1)[0]
    is_cut = not newline and len(head) == _HEAD and line.endswith(name)
    return b"" if is_cut else name


def is_text(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a shell script, by the shells' rule."""
    return b"\0" not in head.split(b"\n", 1)[0]


def reason_without_agent(file: bytes) -> str | None:
    """Return the reason why the ELF program `file` can take no agent, None if it can.

    If `file` is no ELF program, also return None.
    """
    if _gains_privileges(file):
        return status.SETUID
    try:
        with open(file, "rb", buffering=0) as opened:
            image = ElfImage.from_descriptor(opened.fileno(), os.fsdecode(file))
            header = image.header
            if (
                header is None
                or header.encoding.bits != arch.BITS
                or header.machine != arch.MACHINE
            ):
                is_ours = header is not None and _runs_here(header.machine)
                has_slots = image.interpreter or is_loader(image)
                return status.STATIC if is_ours and not has_slots else status.FOREIGN
            if image.interpreter:
                return None
            return status.BY_LOADER if is_loader(image) else status.STATIC
    except FormatError:
        return None  # exec will report the error
    except PermissionError:
        return status.UNREADABLE
    except OSError:
        return None


def text_in(pid: int, addr: int) -> str:
    """Return the string at an address of a process, at most a page, or "" if it cannot be read."""
    data = b""
    try:
        memory = ProcessMemory(pid)
    except OSError:
        return ""
    try:
        while b"\0" not in data and len(data) < _PAGE:
            piece = memory.read(addr + len(data), _PAGE - (addr + len(data)) % _PAGE)
            if not piece:
                return ""
            data += piece
    except OSError:
        return ""
    finally:
        memory.close()
    return os.fsdecode(data.partition(b"\0")[0])


def may_gain_privileges(pid: int, name: str) -> bool:
    """Return whether exec of `name` may give process `pid` rights that soscope lacks.

    In doubt the result is True: the process may have changed its PATH since it began, so a name
    that its first PATH does not find may be any file.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = [entry.partition(b"=") for entry in file.read().split(b"\0")]
    except OSError:
        return True
    environ = {os.fsdecode(key): os.fsdecode(value) for key, _, value in entries if key}
    for word in (name,) if "/" in name else (name, f"./{name}"):
        try:
            if Command([word], f"/proc/{pid}/cwd", environ).reason == status.SETUID:
                return True
        except LaunchError:
            if word == name and "/" not in name:
                return True
    return False


def _runs_here(machine: int) -> bool:
    """Return whether this kernel itself runs programs of a machine (e_machine)."""
    from soscope.model.arch import arch_here

    here = arch_here()
    return here is not None and machine in (here.number, *here.runs)


def launch_error(command: str, number: int) -> LaunchError:
    """Return the error for a command whose exec failed with errno `number`.

    It has the exit status that a shell would give.
    """
    if number in (errno.ENOENT, errno.ENOTDIR) and not os.path.lexists(command):
        return LaunchError.not_found(command, errno=number)
    reason = os.strerror(number).lower()
    if number == errno.ENOENT:
        reason = "its interpreter does not exist"
    return LaunchError.not_executable(command, reason, errno=number)


def _path(environ: dict[str, str]) -> bytes | None:
    path = environ.get("PATH")
    return None if path is None else os.fsencode(path)


def _no_directory(place: bytes) -> int:
    """Return the errno that tells why a path is no directory."""
    try:
        os.stat(place)
    except OSError as error:
        return error.errno or errno.ENOENT
    return errno.ENOTDIR


def _find(word: str, name: bytes, place: bytes, path: bytes | None) -> list[bytes]:
    """Return the files that exec has to try, in order, as seen from the directory `place`."""
    if not name:
        raise LaunchError.not_found(word, errno=errno.ENOENT)
    if b"/" in name:
        candidates = [name]
    else:
        folders = (_DEFAULT_PATH if path is None else path).split(b":")
        candidates = [os.path.join(folder or b".", name) for folder in folders]
    files = []
    failure = errno.ENOENT
    for file in candidates:
        number = _executable(os.path.join(place, file))
        if not number:
            files.append(file)
        elif number not in (errno.ENOENT, errno.ENOTDIR) and (failure == errno.ENOENT):
            failure = number
    if files:
        return files
    if failure == errno.ENOENT:
        raise LaunchError.not_found(word, errno=failure)
    raise LaunchError.not_executable(word, os.strerror(failure).lower(), errno=failure)


def _executable(file: bytes) -> int:
    """Return 0 if `file` can be executed, else the errno with the reason."""
    try:
        mode = os.stat(file).st_mode
    except OSError as error:
        return error.errno or errno.ENOENT
    if stat.S_ISDIR(mode):
        return errno.EISDIR
    if not stat.S_ISREG(mode) or not os.access(file, os.X_OK, effective_ids=True):
        return errno.EACCES
    return 0


def _head(file: bytes) -> bytes | None:
    """Return the first bytes of a file, None if permission is denied, b"" for any other error."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return None
    except OSError:
        return b""
    try:
        return os.read(descriptor, _HEAD)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _real(file: bytes) -> str:
    return os.fsdecode(os.path.realpath(file))


def _gains_privileges(file: bytes) -> bool:
    """Return whether exec gives the program rights that soscope lacks.

    See execve(2) and capabilities(7).
    """
    try:
        file_status = os.stat(file)
        is_ignored = os.statvfs(file).f_flag & os.ST_NOSUID
    except OSError:
        return False
    changes_user = file_status.st_mode & stat.S_ISUID and file_status.st_uid != os.getuid()
    group_bits = stat.S_ISGID | stat.S_IXGRP
    changes_group = (
        file_status.st_mode & group_bits == group_bits and file_status.st_gid != os.getgid()
    )
    if not (changes_user or changes_group or (os.getuid() and _has_capabilities(file))):
        return False
    return not is_ignored and status.read_status(os.getpid()).get("NoNewPrivs") != "1"


def _has_capabilities(file: bytes) -> bool:
    try:
        return bool(os.getxattr(file, b"security.capability"))
    except OSError:
        return False


# Find the last program of an ended process that was not traced, from its process name.
#
# The kernel names a process after the file that it executes, until the process chooses another
# name. So a name that differs from the one at the start of the first program is the name of another
# program only if there is such a program. It is looked for in PATH, and also beside the first
# program if that is not known to have chosen a name.

_LONGEST = 15  # bytes of a process name that the kernel keeps


def program_at_end(
    pid: int, first: Program, announced: str = "", *, may_be_renamed: bool = True
) -> str | None:
    """Return the path of the program as which process `pid` has ended, or None.

    None means that the program is not known, that it is the `first` one, or that the process has
    not ended. The process can still be waited for. `announced` is the path or name of a program
    that it was about to execute. `may_be_renamed` is set if the first program may have chosen a
    name.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return None  # another part of soscope has waited for it
    name = comm(pid) if ended is not None else ""
    if name != first.name and announced and name == os.path.basename(announced)[:_LONGEST]:
        return announced
    return last_program_of(name, first, may_be_renamed=may_be_renamed)


def last_program_of(name: str, first: Program, *, may_be_renamed: bool) -> str | None:
    """Return the path of the program whose process is named `name` (see `program_at_end`)."""
    if not name or name == first.name or "/" in name:
        return None
    if len(os.fsencode(name)) >= _LONGEST:
        return None  # a longer name is cut off
    folders = os.get_exec_path()
    if not may_be_renamed:
        folders += [os.path.dirname(first.path), os.curdir]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
