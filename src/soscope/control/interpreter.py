# SPDX-License-Identifier: Apache-2.0
"""Ask the interpreter of a running process for its objects, and leave the process unchanged.

The agent is inserted as for a trace, and hooks nothing. The interpreter itself must execute the
orders, under its own lock. A thread that waits for something outside, or for another thread, is
borrowed for that. If there is none, the interpreter executes the order as a pending call.
"""

from __future__ import annotations

import errno
import math
import threading
import time
from contextlib import contextmanager

from soscope.control import takeout
from soscope.control.attach import Attachment, insisted
from soscope.control.program import SessionEvents
from soscope.control.shield import check_filters, shielded
from soscope.control.signals import Signals
from soscope.control.tracer import MakeBlock
from soscope.entry.agent.install import Blob
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.guest.call import CallFault, call
from soscope.entry.isa import arch
from soscope.errors import AttachError, NoSuchProcess, SoscopeError
from soscope.live.heap.memory import GLIBC, find_allocator
from soscope.live.process import Process
from soscope.proc import memory, status
from soscope.proc.status import Refused, in_full
from soscope.wire import headers as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.control.shield import Plain
    from soscope.wire.block import ControlBlock


_TRIES = 3  # a process may execute another program during a try
_CARRYING_OUT = 60.0  # seconds; the collector is slow with millions of objects
_TELLING = 600.0  # seconds; the answering side keeps it shorter
_WAITING = 20.0  # seconds in which an interpreter must make a pending call
_TRIES_OF_WAITING = 10  # attempts to find a waiting thread if no thread runs
_RUNNING = "R"
_PAUSE = 0.002
_BUSY = 15.0  # seconds to wait for a loader that is at work
_RUNS_NOTHING = "its interpreter runs no code: nothing carries out what it is asked"
_IS_OUTSIDE = (
    "its first thread runs no code of its interpreter while others work:"
    " nothing carries out what it is asked"
)


class VisitedInterpreter:
    """The interpreter of a process that has the agent.

    The process shares `block`. With `stays` it goes on counting when soscope has ended.
    """

    __slots__ = ("_agent", "_blob", "_done", "_visit", "block", "stays", "stood_ns")

    def __init__(
        self,
        visit: Visit,
        agent: Resident,
        blob: Blob,
        block: ControlBlock,
        done: Callable[[ControlBlock], int],
    ) -> None:
        self._visit = visit
        self._agent = agent
        self._blob = blob
        self._done = done
        self.block = block
        self.stays = False
        self.stood_ns = visit.threads.longest  # time that the program has waited

    def order(self, number: int, answer: Callable[[], bool] | None = None) -> None:
        """Give the interpreter an order, and wait until it is executed.

        `answer` answers a question that the interpreter may ask meanwhile and waits for. It
        returns whether there was one, and is called repeatedly in another thread. Its exceptions
        are raised here. Raises Refused if the order is not executed.
        """
        limit = _CARRYING_OUT if answer is None else _TELLING
        with self._waited(), _answering(answer) as asked:
            if not self._given(number, limit):
                raise Refused("no interpreter is running in it")
            end = time.monotonic() + _WAITING
            while self._done(self.block) != number:
                self._visit.check_same()
                if time.monotonic() > max(end, asked() + _WAITING):
                    raise Refused(_IS_OUTSIDE if self._runs() else _RUNS_NOTHING)
                time.sleep(_PAUSE)

    def _given(self, number: int, limit: float) -> bool:
        """Give an order. Return whether there is an interpreter. Raises Refused."""
        for _ in range(_TRIES_OF_WAITING):
            try:
                return self._call(number, limit, waits=True)
            except CallFault:
                raise
            except Refused:
                if self._runs():
                    break
        return self._call(number, limit, waits=False)

    def _runs(self) -> bool:
        """Return whether any thread runs. If none does, soscope itself lacked processor time."""
        for tid in status.threads(self._visit.pid):
            try:
                if status.state_of(tid) == _RUNNING:
                    return True
            except NoSuchProcess:
                pass  # the process or thread has ended
        return False

    def _call(self, number: int, limit: float, *, waits: bool) -> bool:
        argument = layout.OBJECTS_CALL.struct.pack(number, waits)
        function = self._agent.base + self._blob.objects
        trap = self._agent.base + self._blob.trap
        result, _ = call(self._visit, function, argument, trap, limit=limit, has_to_wait=waits)
        return bool(result)

    def stopped(self, read: Callable[[], Plain]) -> Plain:
        """Call `read` while all threads of the process are stopped, and return its result."""
        for left in reversed(range(_TRIES)):
            self._visit.tries = 0
            try:
                self._visit.stop(limit=_BUSY)
                break
            except Executed:
                raise
            except Refused:  # a thread had no processor to stop on
                if not left:
                    raise
        try:
            with self._waited():
                return read()
        finally:
            self._visit.threads.resume()

    @contextmanager
    def _waited(self) -> Iterator[None]:
        begun = time.monotonic_ns()
        try:
            yield
        finally:
            self.stood_ns += time.monotonic_ns() - begun


@contextmanager
def _answering(answer: Callable[[], bool] | None) -> Iterator[Callable[[], float]]:
    """Answer an interpreter's questions in a thread during a `with` block.

    Yield a function that returns the time of the last answer.
    """
    is_over = threading.Event()
    last = [0.0]
    errors: list[BaseException] = []

    def listen() -> None:
        while not is_over.wait(_PAUSE):
            before = last[0]
            last[0] = math.inf  # no timeout while an answer is being made
            try:
                while answer is not None and answer():
                    before = time.monotonic()
            except Exception as error:  # noqa: BLE001  it is raised where the order was given
                errors.append(error)
            last[0] = before

    thread = threading.Thread(target=listen, name="answers", daemon=True)
    if answer is not None:
        thread.start()
    try:
        yield lambda: last[0]
    finally:
        is_over.set()
        if answer is not None:
            thread.join()
    if errors:
        raise errors[0]


def visit(
    pid: int,
    make_block: MakeBlock,
    done: Callable[[ControlBlock], int],
    work: Callable[[VisitedInterpreter], Plain],
) -> Plain:
    """Return the result of `work` with the interpreter of process `pid`, then end its counting.

    `done` reads from a block the number of the last order that was executed. `work` runs in a
    process of its own, which finishes what it has begun if soscope is killed. Raises
    NoSuchProcess, NotPermitted, AgentError, and AttachError with the reason. The process is then
    unchanged.
    """
    signals = Signals()
    signals.block()
    try:
        return insisted(lambda: _visit(pid, make_block, done, work), f"cannot visit process {pid}")
    finally:
        signals.drop()
        signals.restore()


def _visit(
    pid: int,
    make_block: MakeBlock,
    done: Callable[[ControlBlock], int],
    work: Callable[[VisitedInterpreter], Plain],
) -> Plain:
    attachment = Attachment(pid, make_block)
    # `go_in` closes everything if it fails
    agent, *_ = attachment.go_in(SessionEvents())
    block = attachment.program.block
    assert block is not None
    try:
        there = VisitedInterpreter(attachment.visit, agent, attachment.blob, block, done)

        def whole() -> Plain:
            try:
                try:
                    return work(there)
                finally:
                    if not there.stays:
                        there.order(layout.OBJECTS_END)
            finally:
                takeout.take_out_here(attachment.visit, agent)

        return shielded(whole)
    except OSError:
        attachment.visit.check_same()  # the process has ended or executed another program
        raise
    finally:
        block.close()
        attachment.close()


# Make glibc's malloc in a running process return free memory: malloc_trim(3).
#
# One thread of the process makes the call while the others run. Nothing else is inserted into the
# process, and none of its own memory is changed.

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
        if error.errno in (errno.EPERM, errno.EACCES):
            raise  # soscope itself may not do something
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
