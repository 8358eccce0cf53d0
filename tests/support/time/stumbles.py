# SPDX-License-Identifier: Apache-2.0
"""Tell a stumble from a failure: what pytest does with a test whose wait ran out.

Only a wait that ran out (`RanOut`, `subprocess.TimeoutExpired`) can be a stumble of a machine
that is busy. If everything slept during the last half of the wait, the test hangs, and has
failed. If a sanitizer or soscope itself has told of a fault meanwhile, the test has failed, too.

A test that stumbled runs again once, alone, when all others are through. If it passes, the last
lines of the run name it and both outputs are kept below build/stumbles. If it fails again, or if
more than `MOST` tests stumbled, the run fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.time import patience, quiet
from tests.support.time.spent import Spent

STUMBLED = "stumbled"  # an outcome beside pytest's own
MOST = 3  # tests that may stumble in a run
KEPT = Path(os.environ.get("SOSCOPE_TEST_STUMBLES", Path(__file__).parents[3] / "build/stumbles"))

_AGAIN = "SOSCOPE_TEST_AGAIN"  # is set where a test runs again: it may not stumble there
_GRAVE = re.compile(
    r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:|a bug in soscope|Traceback"
)
_ONCE_MORE = 600  # seconds
_SHORT = 10  # seconds: a shorter wait ends no hang, a test expects that it runs out

_watch = quiet.Watch()


class _TimeoutExpired(subprocess.TimeoutExpired):
    """A time limit of a subprocess, with what everything did when it ran out."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.hang = _hang(self.timeout)


def _hang(seconds: float) -> str:
    """Return the stacks of all that sleeps, "" if somebody ran in the last half of a wait."""
    if seconds < _SHORT or _watch.quiet() < seconds / 2:
        return ""
    return quiet.stacks(_watch.members())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make stress`, which wants to know what stumbles."""
    parser.addoption("--no-again", action="store_true", help="run nothing again that stumbled")


def pytest_configure(config: pytest.Config) -> None:
    """Have waits that run out look around at that moment: later their processes are gone."""
    # mypy takes a class for a constant; subprocess looks its name up when it raises it
    subprocess.TimeoutExpired = _TimeoutExpired  # type: ignore[misc]
    patience.hang = _hang
    if not hasattr(config, "workerinput"):  # a worker of xdist hears of its own tests alone
        config.pluginmanager.register(Runner())
        config.pluginmanager.register(Spent(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Watch what a test has started."""
    _watch.begin()
    try:
        return (yield)
    finally:
        _watch.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Call the outcome of a wait that ran out "stumbled", if it may be one."""
    report = yield
    if not report.failed:
        return report
    report.sections.append(("to run it alone", f"{sys.executable} -m pytest '{item.nodeid}'"))
    value = call.excinfo.value if call.excinfo else None
    if not isinstance(value, patience.RanOut | subprocess.TimeoutExpired):
        return report
    if hang := getattr(value, "hang", ""):
        report.sections.append(("a hang: all of these slept", hang))
        return report
    said = [str(value), *(text for _, text in report.sections)]
    said += [_text(getattr(value, name, None)) for name in ("stdout", "stderr")]
    if not any(map(_GRAVE.search, said)) and _AGAIN not in os.environ:
        report.outcome = cast(Any, STUMBLED)
    return report


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Name the outcome."""
    return (STUMBLED, "S", STUMBLED.upper()) if _stumbled(report) else None


def _stumbled(report: pytest.TestReport) -> bool:
    return str(report.outcome) == STUMBLED


class Runner:
    """Runs again what stumbled. It stands in the process that hears of all tests."""

    def __init__(self) -> None:
        self._stumbled: dict[str, pytest.TestReport] = {}
        self._verdicts: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what stumbled."""
        if _stumbled(report):
            self._stumbled[report.nodeid] = report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Run the tests again that stumbled; let the run fail if one of them fails."""
        if session.config.getoption("--no-again") or _AGAIN in os.environ:
            self._verdicts = list(map("STUMBLED {}".format, self._stumbled))
            return
        shutil.rmtree(KEPT, ignore_errors=True)
        is_bad = len(self._stumbled) > MOST
        for number, (test, report) in enumerate(self._stumbled.items(), 1):
            KEPT.mkdir(parents=True, exist_ok=True)
            kept = KEPT / f"{number}.txt"
            passed, said = _again(test) if number <= MOST else (False, "it did not run again\n")
            kept.write_text(f"{test}\n\n{report.longreprtext}\n\n== once more, alone\n\n{said}")
            where = os.path.relpath(kept, session.config.rootpath)
            word = "passed" if passed else "did not pass"
            self._verdicts.append(f"{test}: {word} when it ran again, alone ({where})")
            is_bad = is_bad or not passed
        if is_bad and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say it in the last lines."""
        if self._stumbled:
            terminalreporter.section(f"{len(self._stumbled)} stumbled", sep="-")
            terminalreporter.write_line("\n".join(self._verdicts))
            if len(self._stumbled) > MOST:
                terminalreporter.write_line(f"more than {MOST}: the run fails")


def _again(test: str) -> tuple[bool, str]:
    """Run a test again; return whether it passed, and what was printed."""
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", test]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, _AGAIN: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_ONCE_MORE,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return False, _text(late.stdout)
    return done.returncode == 0, done.stdout
