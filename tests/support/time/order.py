# SPDX-License-Identifier: Apache-2.0
"""In which order tests run: another one each time, that a number brings back.

Files come in any order, and tests in any order within their file: what a file's fixtures have
made serves all of its tests, and is made once. Each test has its place by itself, so a part of
the suite runs in the order in which it does as a part of the whole. Tests with the mark `long` come
first, so that no worker is left alone with one of them at the end.

    pytest --seed 4711
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

_SEED = "SOSCOPE_TEST_SEED"
_KEY = pytest.StashKey[str]()
_INPUT = "soscope_seed"  # of what xdist tells its workers


def add_option(parser: pytest.Parser) -> None:
    """Add the option by which an order is asked for."""
    text = f"the order of the tests: a number that another run has printed (or {_SEED})"
    parser.addoption("--seed", metavar="N", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the order; a worker is told by the process that has started it."""
    told = getattr(config, "workerinput", {}).get(_INPUT)
    asked = config.getoption("--seed") or os.environ.get(_SEED)
    config.stash[_KEY] = told or asked or str(int.from_bytes(os.urandom(4), "little"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist the order: all must have the same one."""
    node.workerinput[_INPUT] = node.config.stash[_KEY]


def pytest_report_header(config: pytest.Config) -> str:
    """Say how somebody else has the same order."""
    return f"order of tests: --seed {config.stash[_KEY]}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say so at the end, too, where something has failed: `pytest -q` has no header."""
    if terminalreporter.stats.keys() & {"failed", "error"}:
        terminalreporter.write_line(pytest_report_header(terminalreporter.config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring tests into that order.

    Afterwards pytest itself puts those together that share a fixture with parameters.
    """
    seed = config.stash[_KEY]

    def place(item: pytest.Item) -> tuple[bool, bytes, bytes]:
        file, is_long = item.nodeid.partition("::")[0], item.get_closest_marker("long") is not None
        return not is_long, _digest(seed, file), _digest(seed, item.nodeid)

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all tests of a file that has the mark `shares` to one worker.

    xdist's own groups are marked by another name for each of their tests, which pytest 9.2 takes
    no longer.
    """
    from xdist.scheduler import LoadGroupScheduling

    if config.getoption("dist") != "loadgroup":
        return None

    class Scheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if _shares(config.rootpath / file) else nodeid

    return Scheduling(config, log)


@functools.cache
def _shares(file: Path) -> bool:
    """Return whether tests of a file share what takes long to make."""
    return "pytest.mark.shares" in file.read_text()


def _digest(seed: str, name: str) -> bytes:
    return hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
