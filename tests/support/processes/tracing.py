# SPDX-License-Identifier: Apache-2.0
"""Run targets with and without soscope, and compare.

Whatever soscope does, a target must print, return and die as it does alone; and what
soscope counted must be what the target says it did (tests/support/truth/account.py).
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN, REPOSITORY, Cell
from tests.support.time import patience
from tests.support.truth import recorded
from tests.support.truth.account import Truth, wrong

SOSCOPE = [sys.executable, "-m", "soscope", "trace"]
# How a run is looked at. Everything: each slot of each image, in full, the hardest case
# for the program; its calls are not counted here.
MODES = ("count", "summary", "record", "everything")
# Recordings with more calls are looked at as columns alone: printing them takes seconds.
SHORT = 30_000


class Case(NamedTuple):
    """One run of a target: its arguments and how it must end."""

    target: str
    arguments: tuple[str, ...] = ()
    status: int = 0  # as subprocess has it: a signal is negative

    @property
    def id(self) -> str:
        """Name the case in a test's name."""
        return "-".join([self.target, *self.arguments])

    @property
    def wish(self) -> dict[str, str]:
        """What the target's own comment asks for."""
        return build.directives(build.find(self.target))

    def cell(self, cell: Cell) -> Cell:
        """Return the way of building nearest to `cell` that this target can be built in."""
        if self.wish.get("pie") == "no":
            cell = cell._replace(pie="nopie")
        elif not build.can(self.target, cell):
            cell = cell._replace(pie="pie")
        return cell._replace(compiler=self.wish.get("compiler", cell.compiler))


class Outcome(NamedTuple):
    """What everybody can see of a run."""

    stdout: str
    stderr: str
    status: int


class Plain(NamedTuple):
    """A run without soscope."""

    outcome: Outcome
    truth: Truth


class Traced(NamedTuple):
    """A run under soscope."""

    outcome: Outcome
    truth: Truth
    counted: dict[str, int]  # by symbol and by symbol@version
    problems: list[str]


def cases(target: str, key: str = "runs") -> list[Case]:
    """Return the runs that a target's comment lists: ARGUMENT,…[:STATUS]|…"""
    wish = build.directives(build.find(target))
    default = wish.get("status", "0")
    result = []
    for text in wish.get(key, "").split("|"):
        words, _, status = text.partition(":")
        arguments = tuple(word for word in words.split(",") if word)
        result.append(Case(target, arguments, _status(status or default)))
    return result


def all_targets() -> list[str]:
    """Name all programs of tests/targets."""
    sources = [path for path in build.TARGETS.iterdir() if path.suffix in {".c", ".cc"}]
    return sorted(path.stem for path in sources if not path.stem.startswith("lib_"))


def _status(text: str) -> int:
    return -signal.Signals[text].value if text.startswith("SIG") else int(text)


def program(case: Case, cell: Cell = PLAIN) -> list[str]:
    """Return the command line of a case, having built what it needs."""
    return [str(build.program(case.target, case.cell(cell))), *case.arguments]


def timeout(case: Case) -> float:
    """Return how long a case may take, in seconds."""
    return patience.limit(float(case.wish.get("timeout", "60")))


def plain(
    command: Sequence[str],
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    limit: float | None = None,
) -> Plain:
    """Run `command` as it is. `folder` is for what it writes about itself."""
    facts = folder / "truth"
    facts.unlink(missing_ok=True)
    outcome = _outcome(command, facts, env, limit)
    return Plain(outcome, Truth.read(facts))


def _outcome(
    command: Sequence[str], facts: Path, env: Mapping[str, str] | None, limit: float | None
) -> Outcome:
    done = run(
        command,
        timeout=limit,
        env={"SOSC_TRUTH": str(facts), "TMPDIR": str(facts.parent), **(env or {})},
        cwd=REPOSITORY / "tests",
    )
    return Outcome(done.stdout, done.stderr, done.returncode)


def selection(case: Case, truth: Truth) -> str:
    """Return the filter expression for what a case is counted by."""
    return case.wish.get("select") or ",".join(truth.names)


def traced(
    command: Sequence[str],
    folder: Path,
    *,
    mode: str,
    select: str = "",
    follow: bool = False,
    orphans: bool = False,
    untimed: bool = False,
    at_most: bool = False,
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    limit: float | None = None,
    prefix: Sequence[str] = (),
) -> Traced:
    """Run `command` under soscope in one of MODES; `problems` is empty when all went well.

    `untimed`: -c may lack the times of some calls: there are more at once than it can keep.
    `orphans`: there may be exits without an entry: of calls that a forked child inherited,
    and of those whose stack was copied back after another call had taken their place.
    `at_most`: fewer calls than a process says that it made may have been recorded, never more.
    `prefix` is a command that runs soscope.
    """
    facts, output, recording = folder / "truth", folder / "output.json", folder / "run.sosr"
    for path in (facts, output, recording):
        path.unlink(missing_ok=True)
    which = ["--from", "all"] if mode == "everything" else ["-e", select]
    ways = {
        "count": ["--count-only", "--json", "-o", str(output)],
        "summary": ["-c", "--json", "-o", str(output)],
        "record": ["--record", str(recording)],
        "everything": ["--record", str(recording)],
    }
    words = [*prefix, *SOSCOPE, "-q", *which, *(["-f"] if follow else []), *ways[mode], *options]
    outcome = _outcome([*words, "--", *command], facts, env, limit)
    truth = Truth.read(facts)
    if mode in {"count", "summary"}:
        counted, problems = _summary(output, outcome, mode, untimed=orphans or untimed)
        return Traced(outcome, truth, counted, problems)
    if not recording.exists():
        return Traced(outcome, truth, {}, [f"no recording; soscope said: {outcome.stderr}"])
    found = recorded.by_columns(recording)
    if mode == "record" and found.calls <= SHORT and not found.orphans:
        found = recorded.by_report(recording, outcome.status, found)
    problems = list(found.problems)
    if found.orphans and not orphans:
        problems.append(f"{found.orphans} exits have no entry")
    if mode == "record":
        problems += recorded.wrong_process(found, truth, followed=follow, at_most=at_most)
    return Traced(outcome, truth, found.by_name, problems)


def _summary(
    output: Path, outcome: Outcome, mode: str, *, untimed: bool
) -> tuple[dict[str, int], list[str]]:
    if not output.exists():
        return {}, [f"nothing written; soscope said: {outcome.stderr}"]
    document: dict[str, Any] = json.loads(output.read_text())
    counted: Counter[str] = Counter()
    problems = []
    if document["schema"] != "soscope/trace-summary/1":
        problems.append(f"schema is {document['schema']}")
    if document["totals"]["dropped"] and not (untimed and mode == "summary"):
        problems.append(f"dropped {document['totals']['dropped']}")
    for row in document["rows"]:
        counted[row["symbol"]] += row["calls"]
        counted[f"{row['symbol']}@{row['version']}"] += row["calls"]
        times = (row["total_ns"], row["min_ns"], row["max_ns"])
        if mode == "count" and any(value is not None for value in times):
            problems.append(f"{row['symbol']} was only counted, and has times")
        if mode == "summary" and None not in times and not 0 <= times[1] <= times[2] <= times[0]:
            problems.append(f"{row['symbol']}: total, min, max are {times}")
        if mode == "summary" and None not in times and not 0 <= row["self_ns"] <= times[0]:
            problems.append(f"{row['symbol']}: self is {row['self_ns']}, total {times[0]}")
    if sum(row["calls"] for row in document["rows"]) != document["totals"]["calls"]:
        problems.append("the total is not the sum of the rows")
    problems += recorded.wrong_exit(document["exit"], outcome.status)
    return counted, problems


def faults(
    wanted: Plain, got: Traced, *, mode: str, follow: bool, at_most: bool = False
) -> list[str]:
    """Return what differs between a run without and one with soscope, one line each.

    `at_most`: fewer calls than were made may have been counted, never more.
    """
    lines = [
        f"{what}: {with_!r}, without soscope {without!r}"
        for what, without, with_ in zip(Outcome._fields, wanted.outcome, got.outcome, strict=True)
        if without != with_
    ]
    if mode != "everything":
        bounds = got.truth.bounds(followed=follow)
        if at_most:
            bounds = {name: (0, high) for name, (_, high) in bounds.items()}
        lines += wrong(got.counted, bounds)
    return lines + got.problems


def is_whole(notes: str) -> bool:
    """Return whether soscope's last line says that no call is missing that it can see."""
    last = notes.rstrip().rpartition("\n")[2]
    return "; complete" in last or "; all calls" in last
