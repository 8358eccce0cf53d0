# SPDX-License-Identifier: Apache-2.0
"""The tracer's process for a program that is about to be started (see `tracing`)."""

from __future__ import annotations

import _socket
import os

from soscope.control import helper
from soscope.control.follow import MakeBlock
from soscope.control.helper import Packets
from soscope.control.native.process import NativeProgram
from soscope.control.native.tracing import NativeTracer, refuse
from soscope.control.program import Program
from soscope.control.settings import SessionSettings
from soscope.entry import ptrace
from soscope.entry.native.threads import OPTIONS
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.instrument import Hooks

_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


def trace_started(
    program: Program,
    hooks: Hooks,
    link: _socket.socket,
    settings: SessionSettings,
    make_block: MakeBlock,
) -> None:
    """Trace a child of soscope that waits before it executes the command.

    When it is traced, soscope is told that it may go on. If it may not be traced, soscope gets
    the reason.
    """
    packets = Packets(link, None)
    try:
        ptrace.seize(program.pid, OPTIONS)
    except OSError as error:
        refuse(packets, error)
        return
    packets.send((helper.OVER, False))
    if not _executes(program.pid):
        packets.send((helper.OVER, True))
        return
    try:
        native = NativeProgram(program.pid, is_ours=True)
        memory = native.open_memory()
        places = native.first_places(memory)
    except BaseException as error:  # noqa: BLE001  whatever it is, soscope says it
        ptrace.detach(program.pid)
        refuse(packets, error)
        return
    NativeTracer(native, memory, program, hooks, link, settings, places, make_block).run()


def _executes(pid: int) -> bool:
    """Wait until a process has executed its command. Return whether it is stopped there."""
    while True:
        _, wait_status = os.waitpid(pid, ptrace.WALL)
        if not os.WIFSTOPPED(wait_status):
            return False
        number, event = os.WSTOPSIG(wait_status), wait_status >> 16
        if event == ptrace.EVENT_EXEC:
            return True
        try:
            if event == ptrace.EVENT_STOP and number in _GROUP_STOPS:
                ptrace.listen(pid)
            else:
                ptrace.resume(pid, 0 if event else number)
        except ProcessLookupError:
            pass  # killed; its end is reported next
