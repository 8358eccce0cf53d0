# SPDX-License-Identifier: Apache-2.0
"""Start a command with the agent in it.

The new process is stopped by ptrace at its exec, the agent goes in before its first own
instruction, then it runs detached (or traced, when its signals or children are wanted). Where
that cannot be, it runs as it would without us, and its `Program` says why.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable

from soscope.control import child as children
from soscope.control import preload
from soscope.control.command import Command, launch_error
from soscope.control.events import Events
from soscope.control.follow import AgentSource, MakeBlock
from soscope.control.program import Program
from soscope.control.supervise import OWN_SIGNALS, Target
from soscope.control.tracer import Tracer
from soscope.errors import LaunchError, NoSharedMemory, SoscopeError
from soscope.process import reasons, status
from soscope.process.blob import Blob

_HIGH_DESCRIPTOR = 900  # programs hand out the low ones


def launch(
    command: list[str],
    make_block: MakeBlock,
    *,
    follow: bool = False,
    stay: bool = False,
    events: Events | None = None,
    agent: str | None = None,
) -> Target:
    """Start `command`; return when it is about to run its own code.

    `make_block(path, descriptor)` makes the control block for a program: for the command
    before it starts, with `follow` for each program executed later; `descriptor` is None, or
    a shared file that the block has to use. `stay` keeps tracing the process, to see its
    signals; `follow` also its children, and puts the agent into what they execute.

    Raises LaunchError where the command cannot be started, AgentError where there is no
    agent, and what `make_block` raises. `Target.run` has to be called next, from this thread.
    """
    found = Command(command)
    events = events or Events()
    program = Program(0, 0, found.program, 0)
    program.reason = found.reason
    blob = None
    try:
        if found.reason is None or follow:
            blob = Blob.build(agent)
    except NoSharedMemory as error:
        program.reason = str(error)
    agents = AgentSource(blob, make_block)
    signals = children.Signals()
    try:
        descriptors: tuple[int, ...] = ()
        if program.reason is None and blob is not None:
            try:
                program.block = make_block(program.path, None)
            except NoSharedMemory as error:
                program.reason = str(error)
            else:
                descriptors = _high_descriptors((blob.fd, program.block.fd))

        def preloading(entries: list[bytes]) -> list[bytes]:
            assert blob is not None
            assert program.block is not None
            return preload.environment(entries, descriptors, blob, program.block)

        signals.block(OWN_SIGNALS)
        try:
            while True:
                try:
                    child = _fork(found, descriptors, signals, preloading)
                    break
                except LaunchError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE) or blob is None:
                        raise
                    # The pipes are more important: ours can be handed over in another way,
                    # or not at all.
                    if not descriptors:
                        _give_up_agent(program, agents, str(error))
                        blob = None
                    _close_all(descriptors)
                    descriptors = ()
        finally:
            _close_all(descriptors)
        if descriptors:
            agents.inherited = (descriptors[0], descriptors[1])
        program.pid = child.pid
        tracer = Tracer(child.pid, program, agents, events, follow=follow, stay=stay)
        target = Target(tracer, agents, signals, follow=follow)
        try:
            _start(
                child,
                tracer,
                target,
                blob,
                command[0],
                inherits=bool(descriptors),
                wants_trace=follow or stay,
            )
        finally:
            child.close()
    except BaseException:
        agents.close()
        signals.restore()
        raise
    return target


def _start(
    child: children.Child,
    tracer: Tracer,
    target: Target,
    blob: Blob | None,
    name: str,
    *,
    inherits: bool,
    wants_trace: bool,
) -> None:
    """Let the child execute its command, and wait until it runs it.

    Raises LaunchError where the exec fails.
    """
    program = tracer.programs[0]
    order = children.BARE
    if program.reason is None or (
        wants_trace and (program.reason != reasons.SETUID or status.may_trace_setuid())
    ):
        try:
            tracer.seize_first()
            order = children.INHERIT
        except OSError as error:
            order = _without_ptrace(program, child, error, inherits=inherits)
    if blob is not None and order == children.PRELOAD:
        blob.fill()
    child.go(order)
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
    program: Program, child: children.Child, error: OSError, *, inherits: bool
) -> bytes:
    """Return how the child is to start where it cannot be traced."""
    why = f"{reasons.NO_PTRACE}: {_who_traces(child.pid) or error.strerror}"
    if program.reason is None and inherits and preload.is_possible():
        program.preloaded = why
        program.note = f"{why}: {preload.NOTE}"
        return children.PRELOAD
    program.block = None
    program.reason = program.reason or why
    return children.BARE


def _fork(
    command: Command,
    descriptors: tuple[int, ...],
    signals: children.Signals,
    preloading: Callable[[list[bytes]], list[bytes]],
) -> children.Child:
    try:
        return children.fork(command, descriptors, signals, preloading)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise LaunchError(f"cannot start a process: {reason}", errno=error.errno) from error


def _give_up_agent(program: Program, agents: AgentSource, reason: str) -> None:
    """Free the descriptors of the agent and its block."""
    agents.close()
    if program.block is not None:
        program.block.close()
        program.block = None
    program.reason = program.reason or reason


def _close_all(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _high_descriptors(files: tuple[int, int]) -> tuple[int, ...]:
    """Duplicate two descriptors to high numbers; () where there is no room for both."""
    limit = os.sysconf("SC_OPEN_MAX")  # the soft limit; -1 without one
    lowest = _HIGH_DESCRIPTOR
    if 0 <= limit < _HIGH_DESCRIPTOR + len(files):
        lowest = max(limit - 2 * len(files), 3)
    found: list[int] = []
    for file in files:
        try:
            found.append(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, lowest))
        except OSError:
            _close_all(tuple(found))
            return ()
    return tuple(found)


def _who_traces(pid: int) -> str | None:
    try:
        tracer = status.read_status(pid).get("TracerPid", "0")
    except SoscopeError:  # no /proc
        return None
    return None if tracer == "0" else f"process {tracer} traces it"
