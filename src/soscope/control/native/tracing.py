# SPDX-License-Identifier: Apache-2.0
"""The tracer: a child process of soscope that traces a native process by breakpoints.

A breakpoint without a tracer kills the thread that runs into it. So the tracer is a child of
soscope in its own process group, which users do not know and so do not kill. When soscope has
ended, by whatever signal, the tracer undoes all breakpoints, detaches and ends, too.

    soscope ── STOP, or the end of the socket ──► tracer
    soscope ◄── signals, forks, the end, what was not seen ── tracer ──► control block
"""

from __future__ import annotations

import _socket
import resource
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.control import helper
from soscope.control.breakpoints.watch import Wanted
from soscope.control.follow import MakeBlock
from soscope.control.helper import Packets
from soscope.control.native.engine import NativeEngine
from soscope.control.native.family import NativeFamily
from soscope.control.native.process import NativeProgram
from soscope.control.native.run import Company, NativeRun
from soscope.control.program import Program
from soscope.control.settings import ENTRIES, SessionSettings
from soscope.entry import ptrace
from soscope.entry.native.traps import NativeMemory
from soscope.proc.status import signal
from soscope.recording.clock import Sampler
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.instrument import Hooks

REMARKS, EXECUTED, REFUSED = "remarks", "executed", "refused"

_TURN = 0.05  # seconds between checks for soscope's messages
_LAST = 2.0  # seconds that soscope may take to receive the last packets
_ROOM = 1.0  # seconds that a full ring may delay a thread; then it has no reader
_PAUSE = 0.0005


class NativeTracer:
    """The main loop of the tracer of one process."""

    def __init__(
        self,
        native: NativeProgram,
        memory: NativeMemory,
        program: Program,
        hooks: Hooks,
        link: _socket.socket,
        settings: SessionSettings,
        places: tuple[int, int] | tuple[int, int, ElfImage],
        make_block: MakeBlock,
    ) -> None:
        """Prepare to trace. `make_block` makes the blocks of programs that are executed.

        `places` are the result of `NativeProgram.places`, or of `first_places` for a child of
        soscope that is stopped after its exec.
        """
        self._settings = settings
        self._places = places
        self._pid = native.pid
        self._native = native
        self._memory = memory
        self._hooks = hooks
        self._link = link
        self._packets = Packets(link, None, keeps_blocks=True)
        self._program = program
        self._make_block = make_block
        self._is_due = False
        self._is_first = len(places) > 2
        self._waits = settings.when_full == "block"

    def run(self) -> None:
        """Trace the process until soscope sends STOP or has ended, or the process has ended."""
        company = Company(self._packets, follows=self._settings.follow)
        if company.follows:
            _take_descriptors()
        engine = NativeEngine(self._memory, self._run_of(self._native, self._program), company)
        family = NativeFamily(engine, company, self._new_run)
        signal.signal(signal.SIGALRM, self._ring)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
        try:
            engine.begin(*self._places)
        except Exception as error:  # noqa: BLE001  whatever it is, soscope says it
            if self._is_first:
                ptrace.detach(self._pid)
            family.let_go()
            refuse(self._packets, error)
            return
        try:
            self._packets.send((helper.OVER, False))  # tells soscope that tracing has begun
            if self._is_first:
                ptrace.resume(self._pid)
            signal.setitimer(signal.ITIMER_REAL, _TURN, _TURN)
            while not family.is_over and not self._is_told():
                self._is_due = False
                family.work(lambda: self._is_due)
                self._count(family)
        except Exception as error:  # noqa: BLE001  the process comes first, then soscope hears
            company.say(f"tracing ended early: {type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if family.executed is None:
                family.let_go()
        self._finish(family)

    def _count(self, family: NativeFamily) -> None:
        """Write into the control block for how long threads were stopped."""
        if (block := self._program.block) is not None:
            block.stood_still = family.stood_ns

    def _run_of(self, native: NativeProgram, program: Program) -> NativeRun:
        hooks, block = self._hooks, program.block
        assert block is not None
        recorder = Recorder(block, Sampler().ticks, lambda: self._wait_for_room(block))
        return NativeRun(
            native,
            program,
            recorder,
            Wanted(hooks, native.convention, native.arch, native.coding),
            string_limit=hooks.string_limit,
            inside=self._settings.inside,
            sees_slots=self._settings.engine != ENTRIES,
        )

    def _new_run(self, native: NativeProgram, program: Program) -> NativeRun:
        """Make the run of a program that was executed. Raises SoscopeError."""
        program.arch, program.engine = native.arch.unames[0], self._program.engine
        program.block = self._make_block(program.path, None, 0)
        return self._run_of(native, program)

    def _ring(self, *_: object) -> None:
        self._is_due = True

    def _is_told(self) -> bool:
        """Return whether soscope has sent STOP or has ended."""
        try:
            if self._link.recv(len(helper.STOP), _socket.MSG_DONTWAIT) in (helper.STOP, b""):
                return True
        except BlockingIOError:
            pass  # no message: go on
        except OSError:
            return True  # that process is gone
        self._packets.flush()
        return False

    def _wait_for_room(self, block: ControlBlock) -> None:
        """Wait until soscope has emptied the ring, if no call may be lost."""
        end = time.monotonic() + _ROOM
        while self._waits and layout.CHUNK_FREE not in block.chunk_states():
            if time.monotonic() > end:
                self._waits = False
            self._packets.flush()  # soscope must know the block to empty it
            time.sleep(_PAUSE)

    def _finish(self, family: NativeFamily) -> None:
        self._packets.send((REMARKS, tuple(family.remarks())))
        if family.executed is not None:
            self._packets.send((EXECUTED, family.executed))
        self._packets.send((helper.OVER, True))
        end = time.monotonic() + _LAST
        while not self._packets.flush() and time.monotonic() < end:
            time.sleep(_PAUSE)


def refuse(packets: Packets, error: BaseException) -> None:
    """Report to soscope why the process is not traced."""
    said = error.strerror if isinstance(error, OSError) else None
    packets.send((REFUSED, (said or "").lower() or str(error) or type(error).__name__))
    packets.flush()


def _take_descriptors() -> None:
    """Raise the limit of descriptors, because each followed process takes some."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
