# SPDX-License-Identifier: Apache-2.0
"""Start a command with the agent in it.

The new process is stopped by ptrace at its exec. The agent is inserted before the program's first
instruction, and then the program runs detached. It stays traced if its signals or children are
wanted. If the agent cannot be inserted, the program runs as it would without soscope, and its
`Program` has the reason.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from _thread import get_native_id

from soscope.control import command
from soscope.control.command import Command, is_text, launch_error
from soscope.control.program import Program, SessionEvents
from soscope.control.signals import Signals
from soscope.control.supervise import Target
from soscope.control.tracer import AgentSource, MakeBlock, Tracer
from soscope.entry.agent.install import Blob
from soscope.entry.ptrace import libc
from soscope.errors import LaunchError, NoSharedMemory, SoscopeError
from soscope.proc import status
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# The new process between fork and exec: it undoes what Python changed, then waits.
#
# It must not differ from a process that a shell forked: it has the same environment, descriptors,
# limits, signal mask and signal dispositions.

_CONTINUE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT)
_SHELL = b"/bin/sh"
_FAILED = 127
INHERIT, PRELOAD, BARE = b"i", b"p", b"b"  # the orders of `Child.go`
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
# Python ignores these signals from its start; a new program would inherit that (signal(7)).
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)


class Child:
    """A forked process that waits for `go` before it executes its command."""

    __slots__ = ("_go", "_result", "pid")

    def __init__(self, pid: int, go: int, result: int) -> None:
        self.pid = pid
        self._go = go
        self._result = result

    def go(self, order: bytes) -> None:
        """Let the child execute the command.

        INHERIT: the child inherits soscope's descriptors. PRELOAD: it also gets the environment
        with LD_PRELOAD. BARE: it gets neither.
        """
        try:
            os.write(self._go, order)
        except BrokenPipeError:
            pass  # the process was killed
        finally:
            os.close(self._go)
            self._go = -1

    def exec_error(self) -> int | None:
        """Wait until the child has executed the command. Return None, or the errno of the exec."""
        if self._result < 0:
            return None
        data = os.read(self._result, 16)
        self.close()
        return int(data) if data else None

    def close(self) -> None:
        """Close the pipes. A child that still waits for its order ends."""
        for descriptor in (self._go, self._result):
            if descriptor >= 0:
                os.close(descriptor)
        self._go = self._result = -1


def restore_actions() -> None:
    """Restore the signal dispositions that Python and soscope have changed, in a new process."""
    for number in signal.valid_signals():
        action = signal.getsignal(number)
        if callable(action) or (number in _PYTHON_IGNORES and action == signal.SIG_IGN):
            signal.signal(number, signal.SIG_DFL)


def fork(
    command: Command,
    descriptors: tuple[int, ...],
    signals: Signals,
    preload: Callable[[list[bytes]], list[bytes]],
    *,
    dies_with_us: bool = False,
) -> Child:
    """Fork a process that waits before it executes `command`.

    The process may inherit `descriptors`. `preload` makes the environment for the
    order PRELOAD. With `dies_with_us` the process is killed when this thread ends. Raises OSError
    if no process or no pipe can be made.
    """
    environ = command.environ
    death_signal = ctypes.c_int(0)
    libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(death_signal), 0, 0, 0)
    argv = _vector(command.arguments)
    pipes: list[int] = []
    try:
        pipes += os.pipe2(os.O_CLOEXEC)
        pipes += os.pipe2(os.O_CLOEXEC)
        if get_native_id() != os.getpid():
            _allow_fork_beside_threads()
        pid = os.fork()
    except OSError:
        for descriptor in pipes:
            os.close(descriptor)
        raise
    go_read, go_write, result_read, result_write = pipes
    if not pid:
        try:
            os.close(go_write)
            restore_actions()
            # A soscope that dies with its parent (PR_SET_PDEATHSIG) passes that on to the child.
            end = signal.SIGKILL if dies_with_us else death_signal.value
            if end:
                libc.prctl(_PR_SET_PDEATHSIG, end, 0, 0, 0)
            order = os.read(go_read, 1)
            if order:
                for descriptor in () if order == BARE else descriptors:
                    os.set_inheritable(descriptor, True)
                envp = _vector(preload(environ) if order == PRELOAD else environ)
                signals.restore_in_child()
                os.write(result_write, b"%d" % _go_and_execute(command, argv, envp))
        finally:
            os._exit(_FAILED)
    os.close(go_read)
    os.close(result_write)
    return Child(pid, go_write, result_read)


def _allow_fork_beside_threads() -> None:
    """Silence the warning of Python 3.12 and later about fork in a program with threads.

    The fork is safe here: the new process takes no lock that another thread may hold, and
    executes a program.
    """
    import warnings

    said = r"This process \(pid=\d+\) is multi-threaded, use of fork"
    warnings.filterwarnings("ignore", said, DeprecationWarning, __name__.replace(".", r"\."))


def _vector(entries: list[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(entries) + 1))(*entries, None)


def _go_and_execute(
    command: Command,
    argv: ctypes.Array[ctypes.c_char_p],
    envp: ctypes.Array[ctypes.c_char_p],
) -> int:
    try:
        if command.user is not None:
            command.user.become()
        if command.cwd is not None:
            os.chdir(command.cwd)
    except OSError as error:
        return error.errno or errno.ENOENT
    return _execute(command, argv, envp)


def _execute(
    command: Command,
    argv: ctypes.Array[ctypes.c_char_p],
    envp: ctypes.Array[ctypes.c_char_p],
) -> int:
    """Execute the first file that can be executed (execvp(3)). Return the errno if none can."""
    failure = errno.ENOENT
    for file in command.files:
        libc.execve(file, argv, envp)
        number = ctypes.get_errno()
        if number == errno.ENOEXEC and _is_script(file):
            words = _vector([_SHELL, file, *command.arguments[1:]])
            libc.execve(_SHELL, words, envp)
            number = ctypes.get_errno()
        if number == errno.EACCES:
            failure = number
        elif number not in _CONTINUE:
            return number
        elif failure == errno.ENOENT:
            failure = number
    return failure


def _is_script(file: bytes) -> bool:
    try:
        with open(file, "rb", buffering=0) as opened:
            head = opened.read(256)
    except OSError:
        return False
    return not head.startswith(b"\x7fELF") and is_text(head)


_HIGH_DESCRIPTOR = 900  # programs use the low numbers


def launch(
    command: list[str],
    make_block: MakeBlock,
    *,
    cwd: str | None = None,
    environ: dict[str, str] | None = None,
    user: str | None = None,
    follow: bool = False,
    stay: bool = False,
    threads: bool = False,
    ends: bool = False,
    events: SessionEvents | None = None,
    agent: str | None = None,
    agentless: Callable[[Command], Target | None] | None = None,
) -> Target:
    """Start `command` and return when it is about to run its own code.

    `make_block(path, descriptors, pid)` makes the control block for a program: for the command
    before it starts and, with `follow`, for each program executed later. `descriptors` is None,
    or the shared files that the block and its plan have to use. `stay` keeps tracing the process
    to see its signals, `threads` the signals of all its threads, and `ends` to see it before its
    memory is gone. `follow` also traces its children, and puts the agent into what they execute.

    The command runs in the directory `cwd` (None: soscope's) with the environment `environ`
    (None: the one that soscope was given) as `user` (None: soscope's user). `agentless` starts it
    with another engine if its machine has no agent, or returns None if it cannot.

    From here on soscope's own signals are blocked in this thread, until `Target.leave`.

    Raises LaunchError if the command cannot be started, AgentError if there is no agent, and what
    `make_block` raises. The caller must call `Target.run` next, in this thread.
    """
    resolved = Command(command, cwd, environ, user)
    if agentless is not None and resolved.reason == status.FOREIGN:
        other = agentless(resolved)
        if other is not None:
            return other
    outfit = _Outfit(resolved, make_block, agent, follow=follow)
    signals = Signals()
    try:
        signals.block()
        child = outfit.fork(resolved, signals)
        tracer = Tracer(
            child.pid,
            outfit.program,
            outfit.agents,
            events or SessionEvents(),
            follow=follow,
            stay=stay,
            threads=threads,
            ends=ends,
        )
        target = Target(tracer, outfit.agents, signals, follow=follow, threads=threads)
        try:
            is_traced = follow or stay or threads or ends
            _start(child, tracer, target, outfit, command[0], wants_trace=is_traced)
        except BaseException:
            target.forget_group()
            raise
        finally:
            child.close()
    except BaseException:
        outfit.agents.close()
        signals.restore()
        raise
    return target


class _Outfit:
    """What the new process gets: its control block, the agent, and descriptor numbers for them.

    `program.reason` tells why it gets none of them. `descriptors` are the numbers of files that
    it inherits, as in `AgentSource.inherited`, or () if no number was free. `may_preload` tells
    whether the agent may be inserted by LD_PRELOAD.
    """

    __slots__ = ("agents", "descriptors", "may_preload", "program")

    def __init__(
        self, command: Command, make_block: MakeBlock, agent: str | None, *, follow: bool
    ) -> None:
        self.program = program = Program(0, 0, command.program, 0)
        program.reason = command.reason
        self.agents = AgentSource(None, make_block)
        self.descriptors: tuple[int, ...] = ()
        self.may_preload = not command.is_by_loader
        try:
            if command.reason is None or follow:
                self.agents.blob = Blob.build(agent)
            if program.reason is None:
                program.block = make_block(program.path, None, 0)
        except NoSharedMemory as error:
            program.reason = str(error)
        except BaseException:
            self.agents.close()
            raise

    def fork(self, command: Command, signals: Signals) -> Child:
        """Fork the process. If descriptors are short, the pipes to the child come first.

        Raises LaunchError.
        """
        if self.agents.blob is not None and self.program.block is not None:
            block = self.program.block
            self.descriptors = _high_descriptors((self.agents.blob.fd, *block.descriptors))
        try:
            while True:
                try:
                    child = fork(command, self.descriptors, signals, self._preloading)
                    break
                except OSError as error:
                    if not self._can_do_with_less(error):
                        raise _cannot_start(error) from error
        finally:
            _close_all(self.descriptors)
        if self.descriptors:
            self.agents.inherited = self.descriptors
        self.program.pid = child.pid
        return child

    def _can_do_with_less(self, error: OSError) -> bool:
        """Free descriptors if none are left. Return whether some were freed."""
        if error.errno not in (errno.EMFILE, errno.ENFILE) or self.agents.blob is None:
            return False
        if self.descriptors:  # the agent can be handed over later
            _close_all(self.descriptors)
            self.descriptors = ()
            return True
        self.agents.close()
        self.program.close_block()
        self.program.reason = self.program.reason or str(_cannot_start(error))
        return True

    def _preloading(self, entries: list[bytes]) -> list[bytes]:
        assert self.agents.blob is not None
        assert self.program.block is not None
        return command.preload_environment(
            entries, self.descriptors, self.agents.blob, self.program.block
        )


def _start(
    child: Child,
    tracer: Tracer,
    target: Target,
    outfit: _Outfit,
    name: str,
    *,
    wants_trace: bool,
) -> None:
    """Let the child execute its command, and wait until the command runs.

    Raises LaunchError if the exec fails.
    """
    program, blob = outfit.program, outfit.agents.blob
    order = BARE
    if program.reason is None or (
        wants_trace and (program.reason != status.SETUID or status.may_trace_setuid())
    ):
        try:
            tracer.seize_first()
            order = INHERIT
        except OSError as error:
            may_preload = outfit.may_preload and bool(outfit.descriptors)
            order = _without_ptrace(program, child, error, may_preload=may_preload)
    if blob is not None and order == PRELOAD:
        blob.fill()
    child.go(order)
    target.watch_group()
    if blob is not None:
        blob.fill()  # while the child executes its command
    if order == INHERIT:
        target.wait_ready()
        failure = child.exec_error() if tracer.exit is not None else None
    else:
        failure = child.exec_error()
        if failure is None:
            tracer.start_untraced()
    if failure is not None:
        if tracer.exit is None:
            os.waitpid(child.pid, 0)
        raise launch_error(name, failure)


def _without_ptrace(program: Program, child: Child, error: OSError, *, may_preload: bool) -> bytes:
    """Return the order by which a child that cannot be traced has to start."""
    why = f"{status.NO_PTRACE}: {_who_traces(child.pid) or error.strerror}"
    if program.reason is None and may_preload and command.can_preload():
        program.preloaded = why
        program.note = f"{why}: {command.PRELOAD_NOTE}"
        return PRELOAD
    program.block = None
    program.reason = program.reason or why
    return BARE


def fork_bare(
    command: Command, program: Program, signals: Signals, *, dies_with_us: bool = False
) -> Child:
    """Fork a process that executes a command without an agent. Raises LaunchError."""
    try:
        child = fork(command, (), signals, lambda entries: entries, dies_with_us=dies_with_us)
    except OSError as error:
        raise _cannot_start(error) from error
    program.pid = child.pid
    return child


def go_bare(child: Child, target: Target, name: str) -> None:
    """Let a process from `fork_bare` execute the command `name`. Raises LaunchError."""
    child.go(BARE)
    target.watch_group()
    failure = child.exec_error()
    if failure is not None:
        os.waitpid(child.pid, 0)
        raise launch_error(name, failure)


def _cannot_start(error: OSError) -> LaunchError:
    reason = (error.strerror or "").lower()
    return LaunchError(f"cannot start a process: {reason}", errno=error.errno)


def _close_all(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _high_descriptors(files: tuple[int, ...]) -> tuple[int, ...]:
    """Duplicate descriptors to high numbers. Return () if there is no room for all of them."""
    limit = os.sysconf("SC_OPEN_MAX")  # the soft limit; -1 without one
    lowest = _HIGH_DESCRIPTOR
    if 0 <= limit < _HIGH_DESCRIPTOR + len(files):
        lowest = max(limit - 2 * len(files), 3)
    high: list[int] = []
    for file in files:
        try:
            high.append(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, lowest))
        except OSError:
            _close_all(tuple(high))
            return ()
    return tuple(high)


def _who_traces(pid: int) -> str | None:
    try:
        tracer = status.read_status(pid).get("TracerPid", "0")
    except SoscopeError:  # no /proc
        return None
    return None if tracer == "0" else f"process {tracer} traces it"
