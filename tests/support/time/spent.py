# SPDX-License-Identifier: Apache-2.0
"""What a run says of its time: the slowest ten tests, and the sum of each folder.

With -q it prints a dot for each hundredth of the tests, so that the output fits a screen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator

import pytest

Told = tuple[str, str, str]  # what pytest calls a status: outcome, letter, word


class Spent:
    """Adds up what tests took. It stands in the process that hears of all tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._is_quiet = config.option.verbose < 0
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._passed = 0
        self._all = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note how many there are."""
        self._all = len(items)

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note how many there are, as a worker tells it."""
        self._all = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds of one phase of a test."""
        self._tests[report.nodeid] += report.duration

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, Told, Told]:
        """Print less for what passes, with -q."""
        status = yield
        if not self._is_quiet or status[0] != "passed":
            return status
        self._passed += 1
        per_dot = max(1, self._all // 100)
        return "passed", "" if self._passed % per_dot else ".", "PASSED"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print where the time went."""
        if len(self._tests) < 20:
            return
        terminalreporter.section("where the time went", sep="-")
        slowest = sorted(self._tests.items(), key=lambda row: -row[1])[:10]
        folders: defaultdict[str, float] = defaultdict(float)
        for test, seconds in self._tests.items():
            words = test.partition("::")[0].split("/")
            folders["/".join(words[: min(3, len(words) - 1)]) + "/"] += seconds
        sums = sorted(folders.items(), key=lambda row: -row[1])
        for name, seconds in [*slowest, *sums]:
            terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
