# SPDX-License-Identifier: Apache-2.0
"""Make glibc's malloc in a running process return free memory: malloc_trim(3).

One thread of the process makes the call while the others run. Nothing else is inserted into the
process, and none of its own memory is changed.
"""

from __future__ import annotations

from soscope.control.filtered import check_filters
from soscope.control.shield import shielded
from soscope.control.signals import Signals
from soscope.entry.agent.visit import Visit
from soscope.entry.guest.call import call
from soscope.entry.isa import arch
from soscope.errors import AttachError, NoSuchProcess, SoscopeError
from soscope.live.heap.memory import GLIBC, find_allocator
from soscope.live.process import Process
from soscope.proc import memory
from soscope.proc.status import Refused, in_full

_LIMIT = 600.0  # seconds; an aborted call would leave the locks of arenas held


class Trimmed:
    """The result of malloc_trim(0) in process `pid`: resident bytes `before` and `after`.

    `given_back` counts only memory without a file, because attaching touches pages of the
    process's files, which RSS counts, too. `gave` is the call's result. `longest_stop` is the
    longest time in ns that a thread was stopped, except the one that made the call.
    """

    __slots__ = ("after", "before", "gave", "given_back", "longest_stop", "pid")

    def __init__(self, pid: int, before: tuple[int, int], after: tuple[int, int]) -> None:
        self.pid = pid
        self.before, self.after = before[0], after[0]
        self.given_back = max(0, before[1] - after[1])
        self.gave = False
        self.longest_stop = 0


def trim(pid: int) -> Trimmed:
    """Make process `pid` call malloc_trim(0).

    Raises NoSuchProcess, NotPermitted, and AttachError if no call can be made in it or if its
    allocator is not glibc's.
    """
    function, trap = _places(pid)
    signals = Signals()
    signals.block()
    try:
        visit = Visit(pid)
        try:
            check_filters(visit)
            before = memory.rollup(pid)

            def work() -> tuple[int, int]:
                result, _ = call(visit, function, b"", trap, value=0, limit=_LIMIT)
                return result, visit.threads.longest

            result, longest = shielded(work)
            after = memory.rollup(pid)
        finally:
            visit.close()
    except Refused as refused:
        raise AttachError(f"cannot trim process {pid}: {in_full(refused.reason)}") from refused
    except OSError as error:
        if isinstance(error, SoscopeError):
            raise
        raise NoSuchProcess(f"process {pid} has ended", errno=error.errno) from error
    finally:
        signals.drop()
        signals.restore()
    trimmed = Trimmed(pid, before, after)
    trimmed.gave = bool(result & 0xFFFF_FFFF)  # the function returns an int
    trimmed.longest_stop = longest
    return trimmed


def _places(pid: int) -> tuple[int, int]:
    """Return the addresses of malloc_trim and of a breakpoint instruction in its image's code."""
    with Process(pid, is_gentle=True) as process:
        allocator = find_allocator(process.picture)
        if process.picture.is_static:
            raise AttachError(f"cannot trim process {pid}: it is statically linked")
        if allocator.name != GLIBC or allocator.image is None:
            name = allocator.name or "not known"
            raise AttachError(
                f"cannot trim process {pid}: malloc_trim is glibc's, and its allocator is {name}"
            )
        answer = process.resolve("malloc_trim", image=allocator.image.name)
        if answer.addr is None:
            raise AttachError(f"cannot trim process {pid}: malloc_trim was not found in it")
        for mapping in process.space.mappings:
            if "x" in mapping.flags and mapping.path == allocator.image.path:
                code = process.space.read(mapping.start, mapping.end - mapping.start)
                # Any byte of the code that is a breakpoint instruction on its own will do.
                at = code.find(arch.BREAKPOINT)
                if at >= 0:
                    return answer.addr, mapping.start + at
    raise AttachError(f"cannot trim process {pid}: no place in its code to return to")
