# SPDX-License-Identifier: Apache-2.0
"""Drive a sweep: two runs without injection, then one run for each call site."""

from __future__ import annotations

import os
import tempfile

from soscope.errors import LaunchError, SoscopeError, UsageError
from soscope.instruments.inject.instrument import InjectRule, Tables, parse_rule
from soscope.instruments.inject.sweep.result import (
    ENDING,
    OUTPUT,
    CommandEnd,
    RunEnd,
    SeenSite,
    Site,
    SiteResult,
    SweepResult,
    kind_of,
    named,
)
from soscope.instruments.inject.sweep.runs import Order, Report, Runs, SweepRun
from soscope.model.record import Record
from soscope.prototypes import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

_TIMES, _LEAST = 10, 5.0  # limit: so many times the first run, or so many seconds
_TRIES = 2  # tries for a run in which soscope itself fails


class SweepSettings(Record):
    """What to sweep.

    `functions` are names and globs, and `callers` are patterns of calling images (none: all
    images). `test` is a shell command that checks the output. If it is None, the output is
    compared. `jobs` is how many runs go on at a time, None for one
    on each processor. `timeout` is how many seconds one run may
    take. If it is None, the limit follows from the first run.
    """

    command: list[str]
    functions: list[str]
    callers: Sequence[str] = ()
    follow: bool = False
    test: str | None = None
    jobs: int | None = None
    timeout: float | None = None

    def rule(self) -> InjectRule:
        """Return a rule that covers all the calls of the sweep. Raises UsageError."""
        callers = "".join(f":from={caller}" for caller in self.callers)
        return parse_rule(f"fault={','.join(self.functions)}{callers}")


class Sweep:
    """One sweep. `result` holds what is known so far."""

    def __init__(self, settings: SweepSettings) -> None:
        """Compile the rule. Raises UsageError if the sweep can never work."""
        self._settings = settings
        rule = settings.rule()
        try:
            tables = Tables([rule], load(), 0, follow=settings.follow)
        except UsageError as error:
            why = error.message.removeprefix(f"'{rule.text}': ")
            raise UsageError(f"--sweep: {why}") from error
        self._selection = tables.selection
        self._ends: list[CommandEnd] = []
        self._digest: bytes | None = None
        self._limit = settings.timeout or 0.0
        self._tries: dict[Site, int] = {}
        self.result = SweepResult(
            settings.command, [symbol.text for symbol in rule.symbols], follow=settings.follow
        )
        self.result.is_tested = settings.test is not None

    def run(self) -> SweepResult:
        """Run the sweep. If KeyboardInterrupt ends it, `result` holds what was done until then.

        Raises SoscopeError if the command cannot be run or cannot be swept.
        """
        runs = Runs()
        try:
            sites = self._observe(runs)
            self.result.sites = len(sites)
            self._try_all(runs, sites)
        except KeyboardInterrupt:
            self.result.is_cut = True
        finally:
            runs.close()
        self.result.results.sort(key=lambda result: result.site.key)
        self.result.failed.sort(key=lambda failed: failed[0].key)
        return self.result

    # ---- without injection

    def _observe(self, runs: Runs) -> list[Site]:
        """Run the command twice without injection, and return the call sites."""
        settings, result = self._settings, self.result
        seen: list[list[SeenSite]] = []
        digests: list[bytes] = []
        jumped: set[tuple[str, str]] = set()
        untraced: set[tuple[str, str]] = set()
        for _ in range(2):
            kept = self._room()
            try:
                run, report = self._run_without(runs, kept)
                if settings.test is not None and not self._is_fine(runs, kept):
                    raise SoscopeError(
                        f"--test '{settings.test}' fails without injection, too",
                        hint="it reads the command's output from its standard input",
                    )
            finally:
                if kept is not None:
                    kept.close()
            self._ends.append(CommandEnd(*report["ended"]))
            digests.append(run.digest)
            seen.append([SeenSite(*words) for words in report["sites"]])
            jumped.update((name, image) for name, image in report["jumped"])
            untraced.update((path, reason) for path, reason in report["untraced"])
        result.baseline = self._ends[0]
        result.jumped = sorted(jumped)
        result.untraced = sorted(untraced)
        if self._ends[0] != self._ends[1]:
            result.differs.append(ENDING)
        if digests[0] == digests[1]:
            self._digest = digests[0]
        else:
            result.differs.append(OUTPUT)
        first, second = named(seen)
        result.moved = sorted(first ^ second, key=lambda site: site.key)
        return sorted(first | second, key=lambda site: site.key)

    def _run_without(self, runs: Runs, kept: IO[bytes] | None) -> tuple[SweepRun, Report]:
        """Run the command once. Raises SoscopeError if the run tells nothing about sites."""
        settings = self._settings
        order = Order(settings.command, follow=settings.follow, selection=self._selection)
        runs.begin(order, self._limit, kept)
        run = runs.wait()
        report = run.report
        if run.is_late:
            raise SoscopeError(
                f"the command does not end in {self._limit:g} s without injection, either",
                hint="--timeout sets how long a run may take",
            )
        if report is None:
            raise SoscopeError("the process of a run was killed")
        if "error" in report:
            kind = LaunchError if report.get("is_launch") else SoscopeError
            raise kind(report["error"], hint=report.get("hint"), exit_status=report.get("status"))
        if not report["programs"]:
            raise SoscopeError(f"nothing can fail there: {_reasons(report)}")
        if not self._limit:
            self._limit = max(_LEAST, _TIMES * run.seconds)
        self.result.timeout = self._limit
        self.result.seconds = self.result.seconds or run.seconds
        return run, report

    # ---- each site

    def _try_all(self, runs: Runs, sites: list[Site]) -> None:
        jobs = self._settings.jobs or len(os.sched_getaffinity(0))
        waiting = sites[::-1]
        running: dict[SweepRun, tuple[Site, IO[bytes] | None]] = {}
        tested: dict[SweepRun, tuple[Site, RunEnd]] = {}
        while waiting or running or tested:
            while waiting and len(runs) < jobs:
                site = waiting.pop()
                kept = self._room()
                order = Order(self._settings.command, follow=self._settings.follow, site=site)
                running[runs.begin(order, self._limit, kept)] = site, kept
            run = runs.wait()
            if run in tested:
                site, end = tested.pop(run)
                end.is_same = run.report == {"is_fine": True}
                self._add(site, end)
                continue
            site, file = running.pop(run)
            end = self._ended(run)
            if end.failure:
                self._tries[site] = self._tries.get(site, 0) + 1
                if self._tries[site] < _TRIES:
                    waiting.append(site)
                else:
                    self.result.failed.append((site, end.failure))
            elif file is None or end.end not in self._ends or end.is_late or end.injected == 0:
                self._add(site, end)
            else:
                assert self._settings.test is not None
                test = runs.begin_test(self._settings.test, file, self._limit)
                tested[test] = site, end
            if file is not None:
                file.close()

    def _ended(self, run: SweepRun) -> RunEnd:
        report = run.report
        if report is None or "error" in report:
            end = RunEnd(CommandEnd(None, None))
            end.is_late = run.is_late
            if not run.is_late:
                end.failure = "its process was killed" if report is None else report["error"]
            return end
        end = RunEnd(CommandEnd(*report["ended"]))
        if not report["programs"]:
            end.failure = _reasons(report)
        end.is_late = run.is_late
        end.injected, end.stack = report["injected"], report["stack"]
        if self._settings.test is None and self._digest is not None:
            end.is_same = run.digest == self._digest
        if end.end == CommandEnd(None, None):
            end.failure = "how it ended was not seen"
        return end

    def _add(self, site: Site, run: RunEnd) -> None:
        kind = kind_of(run, self._ends)
        end = CommandEnd(None, None) if run.is_late else run.end
        self.result.results.append(SiteResult(site, kind, end, [] if run.is_late else run.stack))

    # ---- tests

    def _room(self) -> IO[bytes] | None:
        """Return a file for the output of a run, None if no test reads the output."""
        if self._settings.test is None:
            return None
        return tempfile.TemporaryFile(buffering=0)

    def _is_fine(self, runs: Runs, kept: IO[bytes] | None) -> bool:
        assert self._settings.test is not None
        assert kept is not None
        runs.begin_test(self._settings.test, kept, self._limit)
        return runs.wait().report == {"is_fine": True}


def _reasons(report: Report) -> str:
    rows = [f"{path}: {reason}" for path, reason in report["untraced"]]
    return "; ".join(rows) or "it has not begun"
