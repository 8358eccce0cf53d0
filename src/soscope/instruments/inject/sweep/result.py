# SPDX-License-Identifier: Apache-2.0
"""The result of a sweep: its call sites, how each run ended, and what that means."""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from soscope.control.settings import Hooks, Instrument
from soscope.instruments.inject.instrument import InjectRule, parse_rule
from soscope.model.record import Record, fresh
from soscope.prototypes import load
from soscope.recording.sink import Sink
from soscope.recording.units import UNIT, pieces_of
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.control.outcome import ProgramOutcome
    from soscope.select.filter import Selection
    from soscope.wire.block import ControlBlock


# Call sites: the places that a sweep lets fail, and how a rule of `soscope inject` denotes one.

_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "*?[\\"} | {":": "?", ",": "?"})


class SeenSite(NamedTuple):
    """A call site of one run. `offset` is the link-time address behind the call."""

    function: str
    image: str
    path: str
    offset: int


class Site(NamedTuple):
    """A call site. `image` is the name or path by which a rule denotes its image."""

    function: str
    image: str
    offset: int

    @property
    def key(self) -> tuple[str, int, str]:
        """Return the key by which sites are sorted."""
        return self.image, self.offset, self.function

    @property
    def rule(self) -> str:
        """Return the argument of -e that makes the first call of this site fail."""
        image = self.image.translate(_SPECIAL)
        return f"fault={self.function}:site={image}+{self.offset:#x}:when=1"

    def parsed(self) -> InjectRule:
        """Return the rule that makes the first call of this site fail."""
        return parse_rule(self.rule)


def named(runs: Iterable[Iterable[SeenSite]]) -> list[set[Site]]:
    """Return the sites of each run. Images with the same name are denoted by their paths."""
    listed = [list(run) for run in runs]
    paths: dict[str, set[str]] = {}
    for run in listed:
        for seen in run:
            paths.setdefault(seen.image, set()).add(seen.path)
    return [
        {
            Site(seen.function, seen.path if _needs_path(seen, paths) else seen.image, seen.offset)
            for seen in run
        }
        for run in listed
    ]


def _needs_path(seen: SeenSite, paths: dict[str, set[str]]) -> bool:
    return seen.path.startswith("/") and (len(paths[seen.image]) > 1 or seen.image == "MAIN")


# A run without injection, which finds the call sites of the chosen functions.

_KINDS = (layout.UNIT_ENTRY, layout.UNIT_ENTRY_ONLY)
_SLOT = (1 << 28) - 1  # the slot's number in a unit's first word


class _CallsSink(Sink):
    """Keeps where each slot is called from: {(first word, return address)} for each program."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: dict[int, set[tuple[int, int]]] = {}

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        """Process units of one chunk."""
        del header, first
        self.calls.setdefault(program, set()).update(
            {
                (commit, addr)
                for commit, _, _, addr, _ in UNIT.iter_unpack(units)
                if commit >> 28 in _KINDS
            }
        )

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        """Process whole chunks."""
        for piece in pieces_of(program, data):
            self.chunk(program, b"", 0, piece.units)


class SitesInstrument(Instrument):
    """Collects the call sites of chosen functions.

    `sites` are the call sites. `jumped` are pairs (function, image) of calls that are jumps. Such
    a call returns into another image than the image whose slot it goes through, so no rule can
    describe it.
    """

    name = "sites"
    wants_signals = True  # the same as in the runs with injection
    wants_threads = True

    def __init__(self, selection: Selection) -> None:
        self.hooks: Hooks = Hooks(layout.INSTRUMENT_TRACE, selection, load(), entry_only=True)
        self.sites: set[SeenSite] = set()
        self.jumped: set[tuple[str, str]] = set()
        self._sink = _CallsSink()

    def sinks(self) -> list[Sink]:
        """Return the sink that collects the calls."""
        return [self._sink]

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Add the call sites of one program, with the names of their functions."""
        del sink
        addrs: dict[int, set[int]] = {}
        for commit, addr in self._sink.calls.pop(program.index, ()):
            addrs.setdefault(commit & _SLOT, set()).add(addr)
        for slot in block.slots(program.index, program.images, chosen=addrs):
            caller = slot.caller
            if caller is None:
                continue
            for addr in addrs.get(slot.index, ()):
                if caller.start <= addr <= caller.end:
                    vaddr = addr - caller.load_bias
                    self.sites.add(SeenSite(slot.symbol, caller.name, caller.path, vaddr))
                else:
                    self.jumped.add((slot.symbol, caller.name))


# Results of a sweep: how each run ended, and the kind of each site that follows from it.

NONE = "none"  # same exit status and same output as without injection
ERROR = "error"  # another exit status
CRASH = "crash"  # killed by a signal
HANG = "hang"
WRONG = "wrong"  # same status as without injection, but other output
MOVED = "moved"  # the run did not reach the site
WORST_FIRST = (CRASH, HANG, WRONG, MOVED, ERROR, NONE)
KINDS = (NONE, ERROR, CRASH, HANG, WRONG, MOVED)
OUTPUT = "what they write"  # ways in which two runs can differ, in the words of the report
ENDING = "how they end"

FAULTS = (CRASH, HANG, WRONG)  # kinds that are bugs of the program


class CommandEnd(NamedTuple):
    """How a command ended: its exit status, or the number of the signal that killed it."""

    status: int | None
    signal: int | None


class RunEnd(Record):
    """The end of one run.

    `is_late` means that the run took too long and was killed. `injected` is how many calls
    failed, None if that is not known. `is_same` tells whether the output is the same as without
    injection, None if that cannot be compared. `stack` is the stack at a fatal signal, innermost
    frame first. `failure` tells why soscope itself failed, "" if it did not.
    """

    end: CommandEnd
    is_late: bool = False
    injected: int | None = None
    is_same: bool | None = None
    stack: list[str] = fresh(list)
    failure: str = ""


def kind_of(run: RunEnd, without: list[CommandEnd]) -> str:
    """Return the kind of the end of a run, given the ends `without` injection."""
    if run.injected == 0:
        return MOVED
    if run.is_late:
        return HANG
    if run.end not in without:
        return CRASH if run.end.signal is not None else ERROR
    return WRONG if run.is_same is False else NONE


class SiteResult(Record):
    """The result for one site. `kind` is one of KINDS."""

    site: Site
    kind: str
    end: CommandEnd
    stack: list[str]


class SweepResult(Record):
    """The result of a sweep.

    `baseline` is the end of the first run without injection. There are two such runs. `moved` are
    the sites that only one of them reached, and `differs` are words for other differences between
    them. `results` belong to the sites that were tried, in order. `failed` are the sites that
    soscope could not try, each with the reason. `jumped` are pairs (function, image) whose calls
    no rule can describe, and `untraced` are pairs (program, reason) of programs without
    injection. `is_cut` means that the sweep was interrupted, and `sites` is how many sites were
    to be tried. `is_tested` means that a test checks the output. `seconds` is the time that a run
    without injection takes, and `timeout` the time that a run may take.
    """

    command: list[str]
    functions: list[str]
    follow: bool
    baseline: CommandEnd = CommandEnd(None, None)
    differs: list[str] = fresh(list)
    moved: list[Site] = fresh(list)
    results: list[SiteResult] = fresh(list)
    failed: list[tuple[Site, str]] = fresh(list)
    jumped: list[tuple[str, str]] = fresh(list)
    untraced: list[tuple[str, str]] = fresh(list)
    sites: int = 0
    is_cut: bool = False
    is_tested: bool = False
    seconds: float = 0.0
    timeout: float = 0.0

    @property
    def is_deterministic(self) -> bool:
        """Return whether both runs without injection were the same."""
        return not self.differs and not self.moved

    @property
    def has_no_output(self) -> bool:
        """Return whether output cannot be compared and no test checks it."""
        return OUTPUT in self.differs and not self.is_tested

    @property
    def totals(self) -> dict[str, int]:
        """Return how many sites there are of each kind, and in all."""
        totals = {"sites": len(self.results)} | dict.fromkeys(KINDS, 0)
        for result in self.results:
            totals[result.kind] += 1
        return totals

    @property
    def has_faults(self) -> bool:
        """Return whether there was a crash, a hang or wrong output."""
        return any(result.kind in FAULTS for result in self.results)

    def repeat(self, site: Site) -> str:
        """Return the command line that repeats the run of a site."""
        follow = ["-f"] if self.follow else []
        words = ["soscope", "inject", "-e", site.rule, *follow, "--", *self.command]
        return shell_words(words)


def shell_words(words: list[str]) -> str:
    """Return words in one line, quoted for a shell.

    Words with control characters are quoted as $'…', which bash and POSIX shells since 2024 know.
    """
    return " ".join(shlex.quote(word) if word.isprintable() else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    shown = ""
    for byte in os.fsencode(word):
        letter = chr(byte)
        if byte >= 0x7F or not letter.isprintable():
            shown += f"\\{byte:03o}"
        else:
            shown += f"\\{letter}" if letter in "\\'" else letter
    return f"$'{shown}'"
