# SPDX-License-Identifier: Apache-2.0
"""A running process whose interpreter is asked for its objects, and then is as it was.

The agent goes in as for a trace and hooks nothing. The interpreter itself has to carry orders out,
under its own lock: a thread that waits for something outside, or for another thread, is lent to do
so, and where there is none the interpreter makes a pending call.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager

from soscope.control import takeout
from soscope.control.attach import Attachment, insisted
from soscope.control.events import SessionEvents
from soscope.control.follow import MakeBlock
from soscope.control.shield import shielded
from soscope.control.signals import Signals
from soscope.entry.agent.blob import Blob
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.guest.call import CallFault, call
from soscope.errors import NoSuchProcess
from soscope.proc import status
from soscope.proc.reasons import Refused
from soscope.wire import objectlayout as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.control.shield import Plain
    from soscope.wire.block import ControlBlock

_TRIES = 3  # a process may execute another program while it is looked at
_CARRYING_OUT = 60.0  # seconds; with millions of objects the collector takes long
_TELLING = 600.0  # seconds; whoever answers sees to it that it takes less
_WAITING = 20.0  # seconds for an interpreter to make a pending call
_TRIES_OF_WAITING = 10  # for a thread to wait, where none does anything else
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

    `block` is shared with that. `stays`: it goes on counting when soscope has gone.
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
        self.stood_ns = visit.threads.longest  # for how long the program has waited

    def order(self, number: int, answer: Callable[[], bool] | None = None) -> None:
        """Have an order carried out, and wait for that. Raises Refused where nobody does it.

        `answer` looks whether the interpreter asks for something meanwhile, which waits for it, and
        says so; it is called by another thread, again and again. What it raises is raised here.
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
        """Give an order; return whether there is an interpreter. Raises Refused."""
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
        """Return whether any thread runs; if none does, only soscope had no processor."""
        for tid in status.threads(self._visit.pid):
            try:
                if status.state_of(tid) == _RUNNING:
                    return True
            except NoSuchProcess:
                pass  # it has ended
        return False

    def _call(self, number: int, limit: float, *, waits: bool) -> bool:
        argument = layout.OBJECTS_CALL.struct.pack(number, waits)
        function = self._agent.base + self._blob.objects
        trap = self._agent.base + self._blob.trap
        result, _ = call(self._visit, function, argument, trap, limit=limit, has_to_wait=waits)
        return bool(result)

    def stopped(self, read: Callable[[], Plain]) -> Plain:
        """Return what `read` does while all threads of the process stand still."""
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
    """Have a thread answer what an interpreter asks; give the time of its last answer."""
    is_over = threading.Event()
    last = [0.0]
    errors: list[BaseException] = []

    def listen() -> None:
        while not is_over.wait(_PAUSE):
            before = last[0]
            last[0] = math.inf  # whoever waits for us has to go on with that
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
    """Return what `work` does with the interpreter of process `pid`; then it counts no more.

    `done` reads the last order that was carried out from a block. `work` runs in a process of its
    own, which ends what it has begun when soscope is killed. Raises NoSuchProcess, NotPermitted,
    AgentError, and AttachError with the reason; then the process is as it was.
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
    # `go_in` closes everything where it fails
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
        attachment.visit.check_same()  # it has ended, or its program has
        raise
    finally:
        block.close()
        attachment.close()
