# SPDX-License-Identifier: Apache-2.0
"""Start a command with the agent in it.

The new process is stopped by ptrace at its exec. The agent is inserted before the program's first
instruction, and then the program runs detached. It stays traced if its signals or children are
wanted. If the agent cannot be inserted, the program runs as it would without soscope, and its
`Program` has the reason.
"""

from __future__ import annotations

import errno
import fcntl
import os

from soscope.control import child as children
from soscope.control import preload
from soscope.control.command import Command, launch_error
from soscope.control.events import SessionEvents
from soscope.control.follow import AgentSource, MakeBlock
from soscope.control.program import Program
from soscope.control.signals import Signals
from soscope.control.supervise import Target
from soscope.control.tracer import Tracer
from soscope.entry.agent.install import Blob
from soscope.errors import LaunchError, NoSharedMemory, SoscopeError
from soscope.proc import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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

    def fork(self, command: Command, signals: Signals) -> children.Child:
        """Fork the process. If descriptors are short, the pipes to the child come first.

        Raises LaunchError.
        """
        if self.agents.blob is not None and self.program.block is not None:
            block = self.program.block
            self.descriptors = _high_descriptors((self.agents.blob.fd, *block.descriptors))
        try:
            while True:
                try:
                    child = children.fork(command, self.descriptors, signals, self._preloading)
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
        if self.program.block is not None:
            self.program.block.close()
            self.program.block = None
        self.program.reason = self.program.reason or str(_cannot_start(error))
        return True

    def _preloading(self, entries: list[bytes]) -> list[bytes]:
        assert self.agents.blob is not None
        assert self.program.block is not None
        return preload.environment(entries, self.descriptors, self.agents.blob, self.program.block)


def _start(
    child: children.Child,
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
    order = children.BARE
    if program.reason is None or (
        wants_trace and (program.reason != status.SETUID or status.may_trace_setuid())
    ):
        try:
            tracer.seize_first()
            order = children.INHERIT
        except OSError as error:
            may_preload = outfit.may_preload and bool(outfit.descriptors)
            order = _without_ptrace(program, child, error, may_preload=may_preload)
    if blob is not None and order == children.PRELOAD:
        blob.fill()
    child.go(order)
    target.watch_group()
    if blob is not None:
        blob.fill()  # while the child executes its command
    if order == children.INHERIT:
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


def _without_ptrace(
    program: Program, child: children.Child, error: OSError, *, may_preload: bool
) -> bytes:
    """Return the order by which a child that cannot be traced has to start."""
    why = f"{status.NO_PTRACE}: {_who_traces(child.pid) or error.strerror}"
    if program.reason is None and may_preload and preload.is_possible():
        program.preloaded = why
        program.note = f"{why}: {preload.NOTE}"
        return children.PRELOAD
    program.block = None
    program.reason = program.reason or why
    return children.BARE


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
