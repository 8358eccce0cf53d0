# SPDX-License-Identifier: Apache-2.0
"""What a sweep finds: how runs end, and what that says of a site."""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from soscope.instruments.inject.sweep.site import Site

NONE = "none"  # the same status, and the same output
ERROR = "error"  # another status, by exit
CRASH = "crash"  # a signal
HANG = "hang"
WRONG = "wrong"  # the status as without injection, but not the output
MOVED = "moved"  # the site was not reached
WORST_FIRST = (CRASH, HANG, WRONG, MOVED, ERROR, NONE)
KINDS = (NONE, ERROR, CRASH, HANG, WRONG, MOVED)
OUTPUT = "what they write"  # what two runs differ in
ENDING = "how they end"

FAULTS = (CRASH, HANG, WRONG)  # what a program should not do


class CommandEnd(NamedTuple):
    """How a command ended: its exit status, or the number of the signal that killed it."""

    status: int | None
    signal: int | None


class RunEnd:
    """The end of one run.

    `is_late`: it took too long, and was ended. `injected` is how many calls failed; None: that
    is not known. `is_same` says whether what it wrote is what it writes without injection; None:
    nobody can tell. `stack` is where it died of a signal, innermost first. `failure` is why
    soscope itself could not do it, "" if it could.
    """

    __slots__ = ("end", "failure", "injected", "is_late", "is_same", "stack")

    def __init__(self, end: CommandEnd) -> None:
        self.end = end
        self.is_late = False
        self.injected: int | None = None
        self.is_same: bool | None = None
        self.stack: list[str] = []
        self.failure = ""


def kind_of(run: RunEnd, without: list[CommandEnd]) -> str:
    """Say of which kind the end of a run is; `without` are the ends without injection."""
    if run.injected == 0:
        return MOVED
    if run.is_late:
        return HANG
    if run.end not in without:
        return CRASH if run.end.signal is not None else ERROR
    return WRONG if run.is_same is False else NONE


class SiteResult:
    """What came of one site: `kind` is one of KINDS."""

    __slots__ = ("end", "kind", "site", "stack")

    def __init__(self, site: Site, kind: str, end: CommandEnd, stack: list[str]) -> None:
        self.site = site
        self.kind = kind
        self.end = end
        self.stack = stack


class SweepResult:
    """The result of a sweep.

    `baseline` is how the first run without injection ended. `moved` are the sites that only one
    of those runs reached; `differs` are words for what else was not the same in both.
    `results` are the sites that were tried, in order; `failed` are those that soscope could not
    try, with the reason. `jumped` are (function, image) whose calls no rule can name, `untraced`
    (program, reason) where nothing fails. `is_cut`: somebody ended it before its end, and
    `sites` were to be tried. `is_tested`: a test looked at the output. `seconds` is how long a run
    without injection took, `timeout` how long one may take.
    """

    __slots__ = (
        "baseline",
        "command",
        "differs",
        "failed",
        "follow",
        "functions",
        "is_cut",
        "is_tested",
        "jumped",
        "moved",
        "results",
        "seconds",
        "sites",
        "timeout",
        "untraced",
    )

    def __init__(self, command: list[str], functions: list[str], *, follow: bool) -> None:
        self.command = command
        self.functions = functions
        self.follow = follow
        self.baseline = CommandEnd(None, None)
        self.differs: list[str] = []
        self.moved: list[Site] = []
        self.results: list[SiteResult] = []
        self.failed: list[tuple[Site, str]] = []
        self.jumped: list[tuple[str, str]] = []
        self.untraced: list[tuple[str, str]] = []
        self.sites = 0
        self.is_cut = False
        self.is_tested = False
        self.seconds = 0.0  # of a run without injection
        self.timeout = 0.0

    @property
    def is_deterministic(self) -> bool:
        """Return whether the runs without injection were the same."""
        return not self.differs and not self.moved

    @property
    def has_no_output(self) -> bool:
        """Return whether the output could not be compared, and nothing else looks at it."""
        return OUTPUT in self.differs and not self.is_tested

    @property
    def totals(self) -> dict[str, int]:
        """How many sites there are of each kind, and in all."""
        totals = {"sites": len(self.results)} | dict.fromkeys(KINDS, 0)
        for result in self.results:
            totals[result.kind] += 1
        return totals

    @property
    def has_faults(self) -> bool:
        """Return whether there was a crash, a hang or wrong output."""
        return any(result.kind in FAULTS for result in self.results)

    def repeat(self, site: Site) -> str:
        """Return the line that repeats the run of a site."""
        follow = ["-f"] if self.follow else []
        words = ["soscope", "inject", "-e", site.rule, *follow, "--", *self.command]
        return shell_words(words)


def shell_words(words: list[str]) -> str:
    """Return words as a shell takes them, in one line; bash knows $'…', and POSIX since 2024."""
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
