# SPDX-License-Identifier: Apache-2.0
"""The settings of a session, and the interface of an instrument to the session."""

from __future__ import annotations

from soscope.model.record import Record
from soscope.recording.sink import Sink
from soscope.select.patterns import Automaton
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from soscope.control.flight import FlightSettings
    from soscope.control.outcome import Outcome, Price, ProgramOutcome
    from soscope.entry.remote.packets import RemoteAddress
    from soscope.prototypes import Prototypes
    from soscope.select.filter import Selection
    from soscope.wire.patches import PatchTable

# Instruments that record each call.
RING_INSTRUMENTS = (layout.INSTRUMENT_TRACE, layout.INSTRUMENT_INJECT, layout.INSTRUMENT_BLOCKS)

# What an instrument gives to a session: which calls to hook, with what, and a reduction.
#
#     hooks ─► each program's control block        sinks ◄─ what is drained of all programs
#     take  ◄─ the block of each program that has ended      end ◄─ the outcome of the session
#
# The session launches, attaches, drains, keeps limits and ends. An instrument does none of that.


class Hooks:
    """The calls that an instrument wants hooked, and what happens at them.

    `kind` is an INSTRUMENT_ constant of `layout`. It selects the instrument's half in the agent,
    and the memory that this half needs in a control block: the ring, or arrays of counts.
    `own_size` is the size in bytes of memory that the agent's half uses as it likes
    (`ControlBlock.own`), and `own` its initial content. `rules` and `functions` are the
    instrument's parts of these sections, and `patterns` are the automata that they refer to, with
    numbers from 0 on. `flags` are PLAN_ constants of `layout`. `string_limit` is how many bytes
    of a string are kept.
    """

    __slots__ = (
        "_describe",
        "_describe_later",
        "_known",
        "_prototypes",
        "flags",
        "functions",
        "kind",
        "own",
        "own_size",
        "patterns",
        "rules",
        "selection",
        "string_limit",
    )

    def __init__(
        self,
        kind: int,
        selection: Selection,
        prototypes: Prototypes,
        *,
        entry_only: bool = False,
        durations: bool = True,
        string_limit: int = 0,
        own_size: int = 0,
        own: bytes = b"",
        stacks: bool = False,
        callers: bool = False,
        methods: bool = False,
        describe: Callable[[int], object] | None = None,
        describe_later: Callable[[int, int], set[str] | None] | None = None,
    ) -> None:
        """Let `kind` handle the calls that `selection` chooses.

        With `entry_only` nothing happens at returns. `durations` is set if the durations of calls
        are used. With `stacks` each call has its stack, for which `own` has room. With `callers`
        calls are counted by call site. With `methods` entries of Python's method tables are
        slots, too.

        `describe(pid)` may add to `prototypes` when the images of a process are mapped and not
        hooked yet. `describe_later(pid, addr)` may do so when an image has been mapped at `addr`.
        It returns the names of functions without a known prototype, or None if it will look at no
        more images.
        """
        self.kind = kind
        self.selection = selection
        self.flags = layout.PLAN_ENTRY_ONLY if entry_only else 0
        if not durations:
            self.flags |= layout.PLAN_NO_DURATIONS
        if callers:
            self.flags |= layout.PLAN_CALLERS
        if methods:
            self.flags |= layout.PLAN_METHODS
        if stacks:
            self.flags |= layout.PLAN_STACKS
        self.string_limit = string_limit
        self.own_size = own_size
        self.own = own
        self.patterns: list[Automaton] = list(selection.patterns)
        self.rules = selection.rules
        self._prototypes = prototypes
        self._known = len(prototypes.texts)
        self._describe = describe if self.needs_ring else None
        self._describe_later = describe_later if self.needs_ring else None
        if self._describe_later is not None:
            self.flags |= layout.PLAN_ASKS
        self.functions = self._table(self.patterns)

    def _table(self, patterns: list[Automaton]) -> bytes:
        return self._prototypes.function_table(
            patterns,
            entry_only=bool(self.flags & layout.PLAN_ENTRY_ONLY),
            want_arguments=self.needs_ring,
        )

    @property
    def prototypes(self) -> Prototypes:
        """The known prototypes of functions."""
        return self._prototypes

    @property
    def describes(self) -> bool:
        """Return whether the table of functions depends on the images of a program."""
        return self._describe is not None

    def functions_for(self, pid: int, room: int | None = None) -> bytes:
        """Return the table of functions for process `pid`, or for a future process if `pid` is 0.

        Prototypes that would need more than `room` bytes are dropped, so those calls are shown
        without them.
        """
        if self._describe is not None and pid:
            before = self._prototypes.state()
            self._describe(pid)
            if len(self._prototypes.texts) != self._known:
                functions = self._table(list(self.selection.patterns))
                if room is not None and len(functions) > room:
                    self._prototypes.restore(before)
                else:
                    self._known = len(self._prototypes.texts)
                    self.functions = functions
        return self.functions

    def names(self) -> set[str]:
        """Return the names of functions in the table that soscope's own prototypes do not have."""
        return self._prototypes.others()

    def look_at(
        self, pid: int, addr: int, told: dict[str, bool]
    ) -> tuple[set[str], set[str]] | None:
        """Look at an image that a process has loaded, mapped at `addr`.

        Returns the names of functions whose prototypes the agent must get now, and the names of
        functions without a known prototype. Returns None if the agent should not ask any more.
        `told` has the names that the agent has got so far, each with whether its prototype is
        known.
        """
        asked = None if self._describe_later is None else self._describe_later(pid, addr)
        if asked is None:
            self.flags &= ~layout.PLAN_ASKS
            return None
        others = self._prototypes.others()
        new = {name for name in others if not told.get(name)}
        return new, {name for name in asked if name not in others and name not in told}

    def later_table(self, new: set[str], asked: set[str], start: int, before: int) -> bytes:
        """Return a table with these names, for the place that `latertable.add_functions` gives."""
        return self._prototypes.later_table(
            sorted(new),
            sorted(asked),
            start,
            before,
            entry_only=bool(self.flags & layout.PLAN_ENTRY_ONLY),
            want_arguments=self.needs_ring,
        )

    @property
    def needs_ring(self) -> bool:
        """Return whether each call is recorded on its own."""
        return self.kind in RING_INSTRUMENTS

    @property
    def needs_counts(self) -> bool:
        """Return whether each thread has its own array of counts."""
        return self.kind in (layout.INSTRUMENT_COUNT, layout.INSTRUMENT_STATS)


class Instrument:
    """Measures something in the programs of one session. This base class measures nothing.

    `name` is for people. `hooks` is None if the instrument hooks no calls. Such an instrument
    gets the events of processes through its sinks. `patches` are functions that replace others in
    each launched program. With `wants_signals` launched processes stay traced, so that their
    signals are seen, and with `wants_threads` the signals of all their threads. With `wants_ends`
    processes are stopped at their end for `ending`. With `needs_no_agent` it also measures
    programs without slots. With `hears_calls` its sinks use each call, so that a call which a
    recording beside it cannot take is not lost.

    The methods are called in this order: `sinks`, `options`, `recorder`, then `started`, `begun`,
    `check_start`, any number of `catch_up`, `move` and `take`, perhaps `stopping` or `stopped`,
    then `finish`, the last `take`, `totals`, `end`. All but `stopping` and `stopped` are called
    in the session's thread. In most of them the target may be waiting, so they must be quick.
    `pause` is how many seconds the session may sleep while the ring is empty, if the instrument
    hooks calls. After `recorder`, `asker` is set if a process of the instrument asks the tracer
    for brief stops of threads (see `stops`).
    """

    name = ""
    hooks: Hooks | None = None
    patches: PatchTable | None = None
    wants_signals = False
    wants_threads = False
    wants_ends = False
    hears_calls = False
    needs_no_agent = False
    pause = 0.02
    asker: _socket.socket | None = None

    def options(self) -> dict[str, object]:
        """Return the options of the measurement that a recording stores."""
        return {}

    def sinks(self) -> list[Sink]:
        """Return the sinks that receive everything that is drained."""
        return []

    def tell(self, recording: Sink) -> None:
        """Write to a recording of the rings what it needs beside the calls."""

    def recorder(self, recording: Sink, beat: Callable[[], object]) -> Sink:
        """Return a sink that stands in front of the recording and passes on what is to be kept.

        Called once, if there is a recording. A sink that works for long must call `beat` often.
        Otherwise threads that wait for soscope conclude that soscope has ended.
        """
        del beat
        return recording

    def started(self) -> None:
        """Note that a process is under observation. Called for each of several processes."""

    def begun(self) -> None:
        """Note that the command runs, or that all processes are hooked."""

    def process(self, pid: int, block: ControlBlock) -> None:
        """Note a process, and each program that it executes with the agent in it."""

    def without_agent(self, pid: int, reason: str) -> None:
        """Note a process whose program has no agent. `reason` is a constant of `proc.reasons`."""

    def news(self, pid: int) -> None:
        """Note that a process or thread, which may have ended, is about to be reaped."""

    def ending(self, pid: int, block: ControlBlock) -> None:
        """Note that a process is about to end: it is stopped and still has its memory."""

    def check_start(
        self, blocks: Sequence[ControlBlock], meanwhile: Callable[[], object]
    ) -> Iterable[str]:
        """Check the state in which the programs began. Return lines to print at once.

        Call `meanwhile` often, because the target runs already.
        """
        del blocks, meanwhile
        return ()

    def catch_up(self) -> bool:
        """Process some of the drained data if too much of it has piled up.

        Return True if that was so. Until it returns False, the ring is not drained and may fill
        up.
        """
        return False

    def move(self) -> bool:
        """Process some of the data that was just drained. Return whether there was any."""
        return False

    def stopping(self, block: ControlBlock) -> None:
        """Note that the slots of an attached process are about to be restored.

        Calls from now on are not seen. This is called in the thread that requested the stop.
        """

    def stopped(self, block: ControlBlock) -> None:
        """Read the present values of `block` as the final ones, although its program goes on.

        This is called in the thread that requested the stop. It is not called for attached
        processes, whose slots are restored. Raises ValueError if the block is closed meanwhile.
        """

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Reduce the data of a program that has ended. Its block is closed next.

        `sink` passes to all sinks, including a recording.
        """

    def ending_soon(self, tell: Callable[[str], None] | None, *, is_interrupted: bool) -> None:
        """Receive, before `finish`, the function `tell` that prints a line at once.

        A `finish` that takes long may use it. `is_interrupted` is set if a signal has ended the
        observation of processes that go on, and the sender of the signal waits for the end of
        soscope.
        """

    @property
    def spent(self) -> Mapping[str, int]:
        """The time in ns of its work for which threads may have waited, by constants of `cost`."""
        return {}

    def price(self, cost: Price, ns_per_tick: float, units: int) -> None:
        """Add to `cost` the time by which calls took longer. They have made `units` units.

        This is called at the end.
        """

    def finish(self) -> list[str]:
        """Process all remaining drained data. Return remarks for the outcome."""
        return []

    def totals(self) -> Mapping[str, object]:
        """Return the totals that a recording stores at its end."""
        return {}

    @property
    def lacking(self) -> list[str]:
        """Lines for `Outcome.lacking`, as known when all programs were taken."""
        return []

    def end(self, outcome: Outcome) -> None:
        """Finish and show the result. Signals to soscope are still held back until that is done."""


# The settings of a session, whatever its instruments measure.

WHEN_FULL = ("block", "drop", "overwrite", "stop")  # in the order of enum sosc_when_full

AGENT = "agent"  # the engine for programs of this machine
AUTO, POISON, SITES, SLOT = "auto", "poison", "sites", "slot"
ENTRIES = "entries"
ENGINES = (AUTO, POISON, SITES, SLOT, ENTRIES)  # engines of programs of other architectures

DEFAULT_BUFFER = 16 << 20
LEAST_BUFFER = 256 << 10  # sixteen chunks: one for each of a few threads
MOST_BUFFER = 64 << 30


class SessionSettings(Record):
    """What to observe, for how long, and where to record it. Times are ns, sizes bytes.

    `command` is the program and its arguments, or empty if `pids` lists running processes. With
    `follow` the children of observed programs are observed, too. `duration_ns` is the time after
    which recording stops (None: never). `buffer` is the size of the ring, and `when_full` one of
    WHEN_FULL. `record` is the path of the recording to write (None: no recording), and `limit`
    its largest size (None: no limit). With `flight` the rings keep the newest calls and are
    written when it tells so. `record` is then the path of the first recording. Without it all
    calls are recorded.

    With `gate` the calls of a process are recorded only while its gate is open: True means that
    gates are open at first, False that they are closed until something opens them, None that
    there are none. `toggle` is the number of the signal to soscope that opens and closes all
    gates, or None.

    `cwd` is the directory in which the command runs (None: soscope's), `environ` its environment
    (None: the one that soscope was given), and `user` the name of the user that runs it (None:
    soscope's user). `remote` is the address of a GDB stub that holds the program (None: soscope
    starts the program). `sysroot` is the root directory of another machine's system, `qemu` the
    emulator for its programs, and `engine` one of ENGINES (None: soscope chooses). With `check`
    another engine sees the same calls, and both are compared. `inside` are the functions whose
    calls are seen at their entry points (option `-x`). With `tells_untraced` programs that cannot
    be recorded are reported at once, as they may run for long.
    """

    command: list[str]
    pids: Sequence[int] = ()
    follow: bool = False
    duration_ns: int | None = None
    buffer: int = DEFAULT_BUFFER
    when_full: str = "block"
    record: str | None = None
    limit: int | None = None
    cwd: str | None = None
    environ: dict[str, str] | None = None
    user: str | None = None
    toggle: int | None = None
    flight: FlightSettings | None = None
    remote: RemoteAddress | None = None
    sysroot: str | None = None
    qemu: str | None = None
    engine: str | None = None
    check: bool = False
    inside: Sequence[str] = ()
    tells_untraced: bool = False

    @property
    def gate(self) -> bool | None:
        """Return whether the gates of processes are open at first, None if there are no gates."""
        return None

    @property
    def wants_no_agent(self) -> bool:
        """Return whether a setting needs another engine than the agent."""
        return bool(self.sysroot or self.qemu or self.engine or self.check or self.inside)

    @property
    def wants_emulator(self) -> bool:
        """Return whether a setting needs a program under an emulator."""
        return bool(self.sysroot or self.qemu or self.check)

    @property
    def goes_by_breakpoints(self) -> bool:
        """Return whether programs of this machine are traced by breakpoints, not by the agent."""
        return self.engine in (SITES, ENTRIES) or (
            bool(self.inside) and self.engine in (None, AUTO)
        )


# Find out whether a session needs the agent or can use another engine.

_KINDS = (layout.INSTRUMENT_TRACE, layout.INSTRUMENT_STATS, layout.INSTRUMENT_COUNT)


def needing_agent(settings: SessionSettings, instruments: Sequence[Instrument]) -> str:
    """Return the option or feature that needs an agent in the program, or "" if none does."""
    if settings.gate is not None:  # the gate's functions are hooked beside the trace's own
        return "--on, --off or --toggle"
    if settings.flight is not None:
        return "--last"
    hooking = [each.hooks for each in instruments if each.hooks is not None]
    if len(hooking) != 1 or hooking[0].kind not in _KINDS:
        return "anything but a trace"
    return "-k" if hooking[0].flags & layout.PLAN_STACKS else ""
