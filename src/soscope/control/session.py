# SPDX-License-Identifier: Apache-2.0
"""A session: observe a command or running processes with instruments, up to an outcome.

    instruments ─ hooks ─► control block ─ launch or attach ─► target
    target ─► ring ─ feed ─► recording's writer, instruments' sinks

The loop runs in one thread, between the target's stops. Work that takes long (an instrument whose
listener prints) is done in slices, so that a signal of the target is never delayed.
"""

from __future__ import annotations

import os
import time

from soscope.control.blocks import Blocks
from soscope.control.command import Command
from soscope.control.launch import launch
from soscope.control.outcome import DISK, READER, START
from soscope.control.program import Program, SessionEvents
from soscope.control.settings import AGENT, POISON, SLOT, Instrument, SessionSettings
from soscope.control.signals import end_is_wanted
from soscope.control.supervise import Target
from soscope.control.tracer import LEAKS_FOLLOWED, TRACES_FOLLOWED
from soscope.control.waits import Waits
from soscope.errors import UsageError
from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.proc.status import FOREIGN, in_full
from soscope.recording.clock import Sampler
from soscope.recording.drain import Drainer, Feed
from soscope.recording.sink import (
    WHY,
    WHY_FILE_ENTRIES,
    WHY_FILE_EXITS,
    WHY_SPOILED,
    Sink,
    Stop,
    Tee,
    Told,
)
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soscope.control.attach import Attachments, Visited
    from soscope.control.flight import Flight, FlightRecorder
    from soscope.control.gdbserver.start import GdbserverTarget
    from soscope.control.outcome import Outcome, ProgramOutcome
    from soscope.recording.writer import Writer


# Choose how a session gets to its programs: agent, breakpoints, emulator or stub.


class Beginning(SessionEvents):
    """The first half of a session: launch the command or attach to running processes."""

    settings: SessionSettings
    feed: Feed
    _blocks: Blocks
    _instruments: Sequence[Instrument]
    _target: Target | Attachments | GdbserverTarget | None
    _attached: Attachments | None

    def _begin(self) -> Target | Attachments | GdbserverTarget:
        settings = self.settings
        if settings.pids:
            from soscope.control.attach import Attachments

            self._target = self._attached = attached = Attachments(self)
            self._blocks.await_exec = attached.note_exec
            attached.attach(
                settings.pids,
                self._blocks.make,
                follow=settings.follow,
                between=self.feed.drain,
                by_sites=self._by_sites,
            )
            return attached
        if settings.remote is not None:
            return self._begin_gdbserver()
        if settings.goes_by_breakpoints and not settings.wants_emulator:
            return self._begin_by_sites()
        if settings.wants_no_agent:
            return self._begin_foreign()
        self._target = target = launch(
            settings.command,
            self._blocks.make,
            cwd=settings.cwd,
            environ=settings.environ,
            user=settings.user,
            follow=settings.follow,
            stay=any(instrument.wants_signals for instrument in self._instruments),
            threads=any(instrument.wants_threads for instrument in self._instruments),
            ends=any(instrument.wants_ends for instrument in self._instruments),
            events=self,
            agentless=self._begin_agentless,
        )
        self._blocks.await_exec = target.await_exec
        return target

    def _by_sites(self, pid: int) -> Visited | None:
        """Trace a process by breakpoints if they are requested or its machine has no agent.

        If its machine has no agent and breakpoints do not suffice, return None. The agent's own
        attachment then fails with the reason.
        """
        from soscope.control.native.start import agentless

        engine = self.settings.engine
        if engine in (POISON, SLOT):
            raise UsageError(
                f"--engine {engine}: not with -p: a process that runs already must outlive soscope"
            )
        if not self.settings.follow:
            from soscope.control.watched import watch

            watched = watch(pid, self._instruments, self)
            if watched is not None:
                return watched
        machine = agentless(pid)
        if not self.settings.goes_by_breakpoints and not machine:
            return None
        from soscope.control.native.start import attach_by_sites, engine_line, needs_agent

        if not self.settings.goes_by_breakpoints and needs_agent(self.settings, self._instruments):
            return None
        target = attach_by_sites(pid, self._blocks.make, self.settings, self._instruments, self)
        self.on_engine(f"process {pid}: {engine_line(self.settings, machine)}")
        return target

    def _begin_by_sites(self) -> Target:
        """Start the command, of any machine, with breakpoints that see its calls."""
        settings = self.settings
        command = Command(settings.command, settings.cwd, settings.environ, settings.user)
        target = None if command.reason != FOREIGN else self._begin_agentless(command)
        return target or self._begin_native(command)

    def _begin_agentless(self, command: Command) -> Target | None:
        """Start a command of a machine without an agent. Return None if no engine can trace it."""
        from soscope.control.qemu.program import is_foreign

        if is_foreign(os.fsdecode(command.files[0]), self.settings.cwd):
            return self._begin_foreign()
        from soscope.control.native.start import is_understood, needs_agent

        if not is_understood(command) or needs_agent(self.settings, self._instruments):
            return None
        return self._begin_native(command)

    def _begin_native(self, command: Command) -> Target:
        """Start a command of this machine with the breakpoint engine."""
        from soscope.control.native.start import start_by_sites

        self._target = target = start_by_sites(
            command, self.settings, self._instruments, self._blocks.make, self
        )
        return target

    def _begin_foreign(self) -> Target:
        """Start the command, a program of another architecture, under an emulator."""
        from soscope.control.qemu.start import start_foreign

        self._target = target = start_foreign(
            self.settings, self._instruments, self._blocks.make, self, self.feed.drain
        )
        return target

    def _begin_gdbserver(self) -> GdbserverTarget:
        """Connect to the program that a GDB stub holds."""
        from soscope.control.gdbserver.start import trace_gdbserver

        self._target = target = trace_gdbserver(
            self.settings, self._instruments, self._blocks.make, self, self.feed.drain
        )
        return target


_BUSY = 0.001  # seconds to the next look after a look that found data
_MOST_DOUBLED = 8  # how often the pause is doubled while the rings are empty
_SOON = 200  # short pauses after a question: another one may follow
_NO_ROOM = "types of some functions of libraries that were loaded later were not used: too many"


class Session(Beginning):
    """One observation, from launch or attachment to its outcome.

    `writer` writes the recording, or is None if there is none. `flown` is called after each
    recording of the flight recorder.
    """

    def __init__(
        self,
        settings: SessionSettings,
        instruments: Sequence[Instrument],
        tell: Callable[[str], None] | None = None,
        flown: Callable[[Flight], object] = lambda _: None,
    ) -> None:
        """Prepare the session. `tell` prints a line at once.

        Raises UsageError for instruments that cannot be combined, and RecordingError.
        """
        self.settings = settings
        self._instruments = instruments
        self._blocks = Blocks(settings, instruments)
        self._tell = tell
        self._remarks: list[str] = []
        self._warned: set[str] = set()  # paths of programs that trace others
        self.told: set[tuple[str, str]] = set()  # path and reason of programs without an agent
        sinks = [sink for instrument in instruments for sink in instrument.sinks()]
        self.writer: Writer | None = None
        self._flight: FlightRecorder | None = None
        if settings.flight is not None:
            from soscope.control.flight import FlightRecorder
            from soscope.recording.writer import check_place

            check_place(settings.record or "")  # the recording may be written days later
            self._flight = FlightRecorder(
                settings.flight, self._make_flight_writer, self._describe, flown
            )
        elif settings.record is not None:
            self.writer = self._make_writer(settings.record)
            recording: Sink = self.writer
            for instrument in instruments:
                recording = instrument.recorder(recording, self._beat)
                self.asker = instrument.asker or self.asker
            sinks.append(recording)
        self.feed = Feed(sinks[0] if len(sinks) == 1 else Tee(*sinks), Sampler())
        self.feed.hear = lambda: self._target is None or self._target.hear()
        self._stopped, self._has_ended = "", False
        self._drainers: dict[Program, Drainer] = {}
        self._ended: dict[object, ProgramOutcome] = {}  # one for each key; scripts repeat programs
        self._lost: dict[str, int] = {}  # lost events by reason
        self._executed: list[tuple[int, list[str]]] = []  # executed by each program's children
        self._idle = 0
        pauses = [instrument.pause for instrument in instruments if instrument.hooks is not None]
        self._longest = min(pauses, default=Instrument.pause)
        self._stop_at = 0.0
        self._end: Stop | None = None
        self._waits = Waits()
        self._target: Target | Attachments | GdbserverTarget | None = None
        self._attached: Attachments | None = None

    def _beat(self) -> None:
        self.feed.beat()

    def _make_writer(self, path: str) -> Writer:
        from soscope.recording.writer import Writer

        settings = self.settings
        options: dict[str, object] = {}
        for instrument in self._instruments:
            options |= instrument.options()
        options["when_full"] = settings.when_full
        options["follow"] = settings.follow
        options["processes"] = settings.pids
        return Writer(
            path,
            command=settings.command,
            options=options,
            versions={},
            start_ns=time.time_ns(),
            limit=settings.limit,
            warn=self._remarks.append,
            keep=True,  # the command may be misspelt
        )

    def _make_flight_writer(self, number: int) -> Writer:
        writer = self._make_writer((self.settings.record or "") + (f".{number}" * (number > 1)))
        writer.begin()
        return writer

    def _describe(self, sink: Sink) -> None:
        for instrument in self._instruments:
            instrument.tell(sink)

    # ---- events of the processes ----

    def on_inner_pid(self, pid: int, inner: int) -> None:
        """Note a process's number in its own pid namespace, which its records use."""
        self.feed.inner_pids[pid] = inner

    def on_wait(self, pid: int) -> None:
        """Print that the observation has not begun yet."""
        if self._tell is not None:
            self._tell(f"going into process {pid} takes a while: its calls are being hooked")

    def on_engine(self, line: str) -> None:
        """Print which engine sees the calls."""
        if self._tell is not None:
            self._tell(line)

    def _tell_untraced(self, program: Program) -> None:
        what = program.path, program.reason or ""
        if self._tell is not None and program.reason is not None and what not in self.told:
            self.told.add(what)
            self._tell(f"{program.path}: nothing is recorded: {in_full(program.reason)}")

    def on_process(
        self, event: str, pid: int, parent: int | None, program: Program, time_ns: int
    ) -> None:
        """Pass on a start, a fork or an exec."""
        if event == "start":
            for instrument in self._instruments:
                instrument.started()
            if self.writer is not None:
                self.writer.begin()
        if self.settings.tells_untraced and event != "fork":
            self._tell_untraced(program)
        if event == "exec":
            self._waits.ended(pid, time_ns, self._drainers)
        if event != "fork" and program.note and TRACES_FOLLOWED in program.note:
            program.note = self._tell_rival(program.path, program.note)
        if program.block is not None and event != "fork":
            self._drainers[program] = self.feed.add(program.block, program.path, pid)
            if self._stopped:
                self._stop_block(program.block)
        if program.block is not None:
            if not program.engine:
                program.arch, program.engine = os.uname().machine, AGENT
            for instrument in self._instruments:
                instrument.process(pid, program.block)
        elif program.reason is not None:
            for instrument in self._instruments:
                instrument.without_agent(pid, program.reason)
        self._tell_event(
            ProcessStart(time_ns, pid, event, parent, program.path, program.arch, program.engine)
        )
        # what is seen in passing may be wrong: only a program with an agent has certainly begun
        if self.settings.follow or (event == "exec" and program.block is not None):
            self._retire()

    def _tell_rival(self, path: str, note: str) -> str | None:
        """Print once why a program is about to fail. Return the rest of its note."""
        if path not in self._warned:
            self._warned.add(path)
            (self._tell or self._remarks.append)(f"{path}: {TRACES_FOLLOWED}")
        return note.removesuffix(TRACES_FOLLOWED).removesuffix("; ") or None

    def on_stood(self, what: str, ns: int) -> None:
        """Note a wait of the programs that the ring did not cause."""
        self._waits.stood(what, ns)

    def on_ending(self, pid: int, program: Program) -> None:
        """Let instruments look at the memory of a process before it is gone."""
        if program.block is not None:
            self.feed.beat()
            for instrument in self._instruments:
                instrument.ending(pid, program.block)

    def on_news(self, pid: int) -> None:
        """Let instruments read the accounting of a process before it is gone."""
        for instrument in self._instruments:
            instrument.news(pid)

    def on_signal(self, pid: int, tid: int, signal: int, time_ns: int) -> None:
        """Pass on a signal."""
        self._tell_event(Signal(time_ns, pid, tid, signal))

    def on_own_signal(self, number: int) -> bool:
        """Handle SIGUSR1 for the flight recorder, or the signal that opens and closes all gates."""
        if self._flight is not None and number == self._flight.signal:
            self._flight.ask()
            return True
        if number != self.settings.toggle:
            return False
        from soscope.control.blocks import toggle

        is_open = self._blocks.gate = toggle(
            program.block for program in self._programs() if program.block is not None
        )
        if self._tell is not None:
            self._tell(f"recording is {'on' if is_open else 'off'}")
        return True

    def on_exit(self, pid: int, status: int | None, signal: int | None, time_ns: int) -> None:
        """Pass on the end of a process."""
        self._waits.ended(pid, time_ns, self._drainers)
        self._tell_event(ProcessExit(time_ns, pid, status, signal))
        if self._flight is not None and status is None:
            self._flight.killed(pid, signal, self._rings())
        if self.settings.follow:
            self._retire()

    def _tell_event(self, event: Told) -> None:
        if self._flight is not None:
            self._flight.event(event)
        self._end_calls()  # the stop has the more exact time, so it is passed on first
        self.feed.event(event)

    def _retire(self) -> None:
        """Drop programs that no process runs any more, because a script may start thousands."""
        over = [pair for pair in self._drainers.items() if not pair[1].pids]
        if over and self._flight is not None:
            self._flight.look(self._rings())  # the last look before they are closed
            if self._flight.at_end and len(over) == len(self._drainers):
                over.pop()  # this may be the end of the session
        for program, drainer in over:
            if program.block is not None:
                self.feed.retire(drainer)
                self._take(program, program.block)
                program.block.close()
                program.block = None
            del self._drainers[program]

    def _take(self, program: Program, block: ControlBlock) -> None:
        """Keep the data of a program that has ended."""
        from soscope.control.outcome import STOPPED_FULL, ProgramOutcome

        number = self._drainers[program].program
        outcome = ProgramOutcome(number, program.path, block.images(number))
        if block.execs is not None:
            self._executed.append(block.execs.read())
        self._waits.take(program, block, self._drainers[program])
        for instrument in self._instruments:
            instrument.take(outcome, block, self.feed.sink)
        self._ended.setdefault(outcome.key, outcome)
        for kind, count in enumerate((*block.dropped, block.dropped_exits)):
            if count and kind in WHY and not (self._flight and kind == layout.DROP_OVERWRITTEN):
                self._lost[WHY[kind]] = self._lost.get(WHY[kind], 0) + count
        self._lost[WHY_SPOILED] = self._lost.get(WHY_SPOILED, 0) + self._drainers[program].spoiled
        is_full = self.settings.when_full == "stop" and block.state == layout.STATE_STOPPED
        if is_full and not self._stopped:
            self._stopped = STOPPED_FULL

    # ---- the loop ----

    def run(self) -> Outcome:
        """Launch the command or attach to the processes, observe them, and return the outcome.

        Raises LaunchError, AttachError and AgentError before anything is observed. Afterwards
        only an exception of an instrument is raised, and then the target goes on unobserved.
        """
        target = self._begin()
        for instrument in self._instruments:
            instrument.begun()
        if self.settings.duration_ns is not None:
            self._stop_at = time.monotonic() + self.settings.duration_ns / 1e9
        try:
            self._check_start()
            target.run(self.tick)
            self._end_calls()
            if self._flight is not None and self._flight.at_end:
                self._flight.write("the end", self._rings())
            self._has_ended = True
            self.feed.finish()
            for each in self._instruments:
                each.ending_soon(self._tell, is_interrupted=target.is_interrupted)
                self._remarks += each.finish()
            return self._outcome(target)
        finally:
            if self._attached is not None:
                for program in self._attached.programs:
                    if program.block is not None:
                        program.block.give_back()
            self._close(target)

    def _check_start(self) -> None:
        """Print at once what the instruments find wrong in the programs' initial state."""
        if self._tell is None:
            return
        blocks = [program.block for program in self._programs() if program.block is not None]
        running = [block for block in blocks if block.state == layout.STATE_RUNNING]
        for instrument in self._instruments:
            for line in instrument.check_start(running, self.feed.drain):
                self._tell(line)

    def _close(self, target: Target | Attachments | GdbserverTarget) -> None:
        """Close files and memory in any case. From then on signals may end soscope."""
        if self.writer is not None:
            self.writer.close()
        self.feed.close()
        for program in target.programs:
            block, program.block = program.block, None
            try:
                if block is not None:
                    block.close()
            except BufferError:
                continue  # a raised exception still holds a view; its file is closed
        target.leave()

    def attend(self) -> bool:
        """Look after the target while the output has no reader. Return False to give up waiting."""
        self._answer()
        self._tell_waits(READER)
        if self._target is None or self._has_ended:
            asked = self._target is not None and self._target.is_asked_to_end
            return not (asked or end_is_wanted())
        return self._target.attend()

    def tick(self) -> float:
        """Move data. Return how many seconds the loop may sleep."""
        self._answer()
        units = self._waits.during(self._drainers, self._move, self._spent)
        self._tell_waits("")
        if units is None:
            return 0.0
        if units:
            self._idle = min(self._idle, 0)
            return _BUSY
        self._idle += 1
        idle = min(_BUSY * (1 << max(min(self._idle, _MOST_DOUBLED), 0)), self._longest)
        return max(min(idle, self._stop_at - time.monotonic()), 0.0) if self._stop_at else idle

    def _tell_waits(self, what: str) -> None:
        """Print once that the programs wait for long. `what` is the reason, "" if unknown."""
        told = None if self._tell is None else self._waits.told(self._drainers, what)
        if told is not None and self._tell is not None:
            from soscope.control.outcome import waits_so_far

            self._tell(waits_so_far(told))

    def _spent(self) -> dict[str, int]:
        """Return the time in ns that soscope spent on work other than draining rings, by reason."""
        spent: dict[str, int] = {}
        for instrument in self._instruments:
            for what, ns in instrument.spent.items():
                spent[what] = spent.get(what, 0) + ns
        if self.writer is not None:
            spent[DISK] = spent.get(DISK, 0) + self.writer.spent_ns
        return spent

    def _move(self) -> int | None:
        are_behind = [instrument.catch_up() for instrument in self._instruments]
        if any(are_behind):
            self.feed.beat()  # the ring fills up, so the target waits or drops calls
            return None
        self._check_limits()
        self._end_calls()  # before `drain` reads the clock, which confirms all earlier times
        units = self.feed.drain()
        if self._flight is not None:
            self._flight.look(self._rings())
        have_moved = [instrument.move() for instrument in self._instruments]
        return None if any(have_moved) else units

    def _answer(self) -> None:
        """Answer the questions of agents. In each of them a thread that loads an image waits."""
        for program, drainer in self._drainers.items():
            block = program.block
            if block is None or not block.question:
                continue
            inner, asked = block.question >> 32, block.question & 0xFFFF_FFFF
            pids = [pid for pid in drainer.pids if drainer.inner_pids.get(pid, pid) == inner]
            pid = pids[0] if pids else 0
            self._idle = -_SOON
            if not self._blocks.answer(block, pid, asked) and _NO_ROOM not in self._remarks:
                self._remarks.append(_NO_ROOM)

    def _check_limits(self) -> None:
        if self._stop_at and time.monotonic() >= self._stop_at:
            from soscope.control.outcome import STOPPED_DURATION

            self.stop(STOPPED_DURATION)
        elif self.writer is not None and self.writer.limit_reached:
            from soscope.control.outcome import STOPPED_LIMIT

            self.stop(STOPPED_LIMIT)

    def stop(self, why: str) -> None:
        """Stop recording, while the target goes on. `why` is a STOPPED_ constant or "".

        Any thread may call this.
        """
        self._stop_at = 0.0
        if not self._stopped:
            self._stopped = why
            self._waits.stopped_ns = time.time_ns()
            if self._attached is not None:
                self._tell_stopping()
                self._attached.stop()  # removes its hooks, and with them the counters
                self._end = self.feed.now()
                return
            # During the launch a program that has begun is known only by its drainer.
            for program in {*self._programs(), *list(self._drainers)}:
                if (block := program.block) is not None:
                    self._stop_block(block)
            self._end = self.feed.now()

    def _stop_block(self, block: ControlBlock) -> None:
        try:
            block.command = layout.COMMAND_STOP
            # Counters go on counting. The values at this moment are the result.
            for instrument in self._instruments:
                instrument.stopped(block)
        except ValueError:
            pass  # closed meanwhile: another thread may call `stop`

    def _tell_stopping(self) -> None:
        for program in self._programs():
            block = program.block
            if block is None:
                continue
            try:
                for instrument in self._instruments:
                    instrument.stopping(block)
            except ValueError:  # closed meanwhile, as in `stop`
                continue

    def _end_calls(self) -> None:
        """Let the feed end the open calls at the time of the `stop`."""
        end, self._end = self._end, None
        if end is not None:
            self.feed.stop(end)

    def _rings(self) -> list[tuple[Drainer, ControlBlock]]:
        return [
            (drainer, program.block)
            for program, drainer in self._drainers.items()
            if program.block is not None
        ]

    def _programs(self) -> list[Program]:
        return self._target.programs if self._target is not None else []

    # ---- the end ----

    def _outcome(self, target: Target | Attachments | GdbserverTarget) -> Outcome:
        from soscope.control.outcome import Outcome, attached_outcome

        settings, ended = self.settings, target.exit
        for program in target.programs:
            if program.block is not None and program in self._drainers:
                self._take(program, program.block)
        outcome = Outcome(
            settings.command,
            status=ended.status if ended else None,
            signal=ended.signal if ended else None,
            programs=list(self._ended.values()),
            untraced=[
                (started.path, started.reason) for started in target.programs if started.reason
            ],
            ns_per_tick=self.feed.clock.rate,
            dropped=[(count, why) for why, count in self._lost.items() if count],
            stopped=self._stopped,
            remarks=self._remarks,
            record=settings.record if self.writer and self.writer.is_readable else None,
        )
        if self._flight is not None:
            outcome.remarks += self._flight.remarks()
        if self._attached is not None:
            outcome.attached = [attached_outcome(attached) for attached in self._attached.targets]
            outcome.lacking += filter(None, (attached.lacking for attached in outcome.attached))
            outcome.not_attached = [str(why) for why in self._attached.failures]
            for attached in outcome.attached:
                self._waits.stood(START, attached.longest_stop_ns)
        outcome.cost = self._waits.price(outcome.ns_per_tick)
        for instrument in self._instruments:
            outcome.remarks += instrument.lacking
            outcome.lacking += instrument.lacking
            instrument.price(outcome.cost, outcome.ns_per_tick, self._waits.units)
        for program in target.programs[:1]:
            outcome.arch, outcome.engine = program.arch, program.engine
            outcome.executed.can_follow = program.preloaded is None
        for executed in self._executed:
            outcome.executed.add(*executed)
        outcome.remarks += target.remarks()
        outcome.lacking += target.lacking()
        outcome.is_left, outcome.verdict = target.is_left, target.verdict()
        for program in target.programs:
            if program.note:
                text = f"{program.path}: {program.note}"
                if text not in outcome.remarks:
                    outcome.remarks.append(text)
                if LEAKS_FOLLOWED in program.note:
                    outcome.lacking.append(text)
        if self.writer is not None:
            self._close_recording(self.writer, outcome)
        if settings.follow:
            from soscope.control.imports import which_trace

            paths = {run.path for run in outcome.programs} - self._warned
            outcome.remarks += [f"{path}: {TRACES_FOLLOWED}" for path in which_trace(paths)]
        for instrument in self._instruments:
            instrument.end(outcome)
        return outcome

    def _close_recording(self, writer: Writer, outcome: Outcome) -> None:
        detached = not all(attached.has_ended for attached in outcome.attached)
        totals: dict[str, object] = {}
        for instrument in self._instruments:
            totals |= instrument.totals()
        writer.end(
            complete=not outcome.stopped,
            why=outcome.stopped or ("detached" if detached else "exit"),
            status=outcome.status,
            signal=outcome.signal,
            totals=totals,
            untraced=outcome.untraced,
            lacking=outcome.lacking,
            is_left=outcome.is_left,
            how=(outcome.arch, outcome.engine),
            cost=None if outcome.cost is None else outcome.cost.document(),
            executed=outcome.executed.document(),
        )
        lost = [(writer.lost_entries, WHY_FILE_ENTRIES), (writer.lost_exits, WHY_FILE_EXITS)]
        if not any(hearer.hears_calls for hearer in self._instruments):
            outcome.dropped += [pair for pair in lost if pair[0]]
        else:  # a sink that uses each call has them
            outcome.remarks += [f"{count:,} events lost: {why}" for count, why in lost if count]
