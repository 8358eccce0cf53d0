# SPDX-License-Identifier: Apache-2.0
"""What an instrument hands in to a session: what is to be hooked with what, and a reduction.

    hooks ─► each program's control block        sinks ◄─ what is drained of all programs
    take  ◄─ the block of each program that has ended      end ◄─ the outcome of the session

The session launches, attaches, drains, keeps limits and ends; an instrument does none of that.
"""

from __future__ import annotations

from soscope.recording.sink import Sink
from soscope.select.automaton import Automaton
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from soscope.control.cost import Price
    from soscope.control.outcome import Outcome, ProgramOutcome
    from soscope.prototypes import Prototypes
    from soscope.select.filter import Selection
    from soscope.wire.patches import PatchTable


class Hooks:
    """What an instrument wants hooked, and what is to happen there.

    `kind`, an INSTRUMENT_ of `layout`, is the instrument's half in the agent, and with it the
    memory that this needs in a control block: the ring, or arrays of counts. `own_size` are
    bytes of that memory which it fills as it likes (`ControlBlock.own`), and `own` is what they
    begin with. `rules` and `functions`
    are its part of those sections, and `patterns` the automata that they number from 0 on.
    `flags` are PLAN_ of `layout`; `string_limit` is how many bytes of a string are kept.
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
        """Have the calls that `selection` chooses handled by `kind`.

        `entry_only`: nothing happens at returns. `durations`: somebody asks how long calls take.
        `stacks`: each call has its stack, which `own` has room for. `callers`: what is counted is
        counted by call site. `methods`: entries of Python's method tables are slots, too.
        `describe(pid)` may add to `prototypes` when a process has its images, and is not hooked;
        `describe_later(pid, addr)` when an image has come that is mapped at `addr`. That returns
        the names of functions that nobody knew, None: it will look at none any more.
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
        """What is known of functions."""
        return self._prototypes

    @property
    def describes(self) -> bool:
        """Return whether the table depends on the images of a program."""
        return self._describe is not None

    def functions_for(self, pid: int, room: int | None = None) -> bytes:
        """Return the table of functions for the process `pid`, 0: one that is not there yet.

        What would need more than `room` bytes is not known, and so is not shown either.
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
        """Return the names of functions in the table that soscope's own has not."""
        return self._prototypes.others()

    def look_at(
        self, pid: int, addr: int, told: dict[str, bool]
    ) -> tuple[set[str], set[str]] | None:
        """Look at an image that a process has loaded, mapped at `addr`.

        Returns the names of functions that the agent has to be told of now, and of those that
        nobody knows; None: it is to ask no more. `told` is what it was told so far, whether the
        name is known or not.
        """
        asked = None if self._describe_later is None else self._describe_later(pid, addr)
        if asked is None:
            self.flags &= ~layout.PLAN_ASKS
            return None
        others = self._prototypes.others()
        new = {name for name in others if not told.get(name)}
        return new, {name for name in asked if name not in others and name not in told}

    def later_table(self, new: set[str], asked: set[str], start: int, before: int) -> bytes:
        """Return a table that says so, to stand where `latertable.add_functions` says."""
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
        """Return whether each call is recorded by itself."""
        return self.kind in layout.RING_INSTRUMENTS

    @property
    def needs_counts(self) -> bool:
        """Return whether each thread counts in an array of its own."""
        return self.kind in (layout.INSTRUMENT_COUNT, layout.INSTRUMENT_STATS)


class Instrument:
    """Measures something in the programs of one session. This one measures nothing.

    `name` is for people. `hooks` is None where nothing is to be hooked: such an instrument hears
    of the processes, through its sinks. `patches` are functions to put in the place of others in
    each program that is launched. `wants_signals`: launched processes stay traced, so that
    their signals are seen, and with `wants_threads` those of all their threads; `wants_ends`: they
    stand still for `ending`. `needs_no_agent`: it measures programs without slots, too.
    `hears_calls`: its sinks make something of each call, so what a recording beside it cannot take
    is not lost.

    The calls come in the order `sinks`, `options`, `recorder`, then `started`, `begun`,
    `check_start`, any number of `catch_up`, `move` and `take`, perhaps `stopping` or `stopped`;
    `finish`, the last `take`, `totals`, `end`. All but those two come in the session's thread, most
    of them while the target may be waiting: be quick. `pause` is how many seconds the session may
    sleep, if it hooks, while nothing comes out of the ring. `asker` is there after `recorder` where
    a process of the instrument's asks whoever traces to stop threads for a moment (see `stops`).
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
        """Return what a recording has to say of how it was measured."""
        return {}

    def sinks(self) -> list[Sink]:
        """Return what hears of everything that is drained."""
        return []

    def tell(self, recording: Sink) -> None:
        """Tell a recording that is made of what there is what it has to know beside the calls."""

    def recorder(self, recording: Sink, beat: Callable[[], object]) -> Sink:
        """Return what hears of everything in the place of a recording, and passes on what is kept.

        Called once, where there is a recording. Who works for long calls `beat` often: else
        threads that wait for soscope think that it is gone.
        """
        del beat
        return recording

    def started(self) -> None:
        """Hear that a process is under observation; with several, of each."""

    def begun(self) -> None:
        """Hear that the command runs, or that all of the processes are hooked."""

    def process(self, pid: int, block: ControlBlock) -> None:
        """Hear of a process, and of each program that it executes with the agent in it."""

    def without_agent(self, pid: int, reason: str) -> None:
        """Hear of a process whose program has no agent: `reason` is a word of `proc.reasons`."""

    def news(self, pid: int) -> None:
        """Hear of a process, or thread, that is about to be waited for: perhaps it has ended."""

    def ending(self, pid: int, block: ControlBlock) -> None:
        """Hear that a process is about to end: it stands still, and still has its memory."""

    def check_start(
        self, blocks: Sequence[ControlBlock], meanwhile: Callable[[], object]
    ) -> Iterable[str]:
        """Look at what the programs began with; return what is to be said of it at once.

        Call `meanwhile` often: the target runs already.
        """
        del blocks, meanwhile
        return ()

    def catch_up(self) -> bool:
        """Work some of what has been drained off, if there is too much of it.

        Return True where that was so: until it is not, the ring is left to fill up.
        """
        return False

    def move(self) -> bool:
        """Work some of what has just been drained off; return whether there was any."""
        return False

    def stopping(self, block: ControlBlock) -> None:
        """Hear that slots of a process that was attached to are about to be given back.

        What happens from now on is not heard of. Called in the thread that asked for the stop.
        """

    def stopped(self, block: ControlBlock) -> None:
        """Hear that what `block` holds now is what counts: its program goes on.

        Called in the thread that asked for the stop. Not called for processes that were attached
        to: their slots are given back. Raises ValueError where the block is closed meanwhile.
        """

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Reduce what is known of a program that has ended; its block is closed next.

        `sink` leads to all sinks, a recording among them.
        """

    def ending_soon(self, tell: Callable[[str], None] | None, *, is_interrupted: bool) -> None:
        """Hear, before `finish`, how to say at once what takes long.

        `is_interrupted`: a signal has ended the observation of processes that go on, and whoever
        sent it waits for soscope's end.
        """

    @property
    def spent(self) -> Mapping[str, int]:
        """For how long it has done what threads may have waited for, in ns, by a word of `cost`."""
        return {}

    def price(self, cost: Price, ns_per_tick: float, units: int) -> None:
        """Put down what calls took longer that have made so many units, when all is over."""

    def finish(self) -> list[str]:
        """Work all that was drained off: nothing follows. Return remarks for the outcome."""
        return []

    def totals(self) -> Mapping[str, object]:
        """Return what a recording has to say at its end of how much there was."""
        return {}

    def end(self, outcome: Outcome) -> None:
        """Finish. Soscope's own signals still wait, so that what is shown now is shown whole."""
