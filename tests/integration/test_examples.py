# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings: every public name has one, and each prints what it says.

An example may use `soscope`, `pid`, a process that sleeps, and "run.sosr", a recording of
`cat /dev/null`.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import soscope
from soscope.model.record import once
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.time.patience import until
from tests.support.time.progress import waits_in

PACKAGE = Path(soscope.__file__).parent
PUBLIC = [name for name in soscope.__all__ if not name.startswith("__")]
MEMBERS = (FunctionType, classmethod, staticmethod, property, cached_property, once)
WITH_EXAMPLES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]


def examples(thing: object, name: str) -> dict[str, str]:
    """Return what the examples of a class or function say, and of what belongs to it, by name."""
    found = doctest.DocTestFinder(exclude_empty=True).find(thing, name)
    return {one.name: "".join(line.source for line in one.examples) for one in found}


def members(thing: object) -> set[str]:
    """Return the public methods and properties of a class, those of its bases among them."""
    classes = thing.__mro__ if isinstance(thing, type) else ()
    return {
        name
        for one in classes
        # what all records have stands in the example of their base
        if one.__module__.startswith("soscope.") and one.__module__ != "soscope.model.record"
        for name, value in vars(one).items()
        if isinstance(value, MEMBERS) and not name.startswith("_")
    }


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name: str) -> None:
    thing = getattr(soscope, name)
    shown = examples(thing, name)
    assert shown.get(name), f"no example of soscope.{name}"
    # a property may stand in the example of its class
    missing = {
        member
        for member in members(thing)
        if not shown.get(f"{name}.{member}") and not re.search(rf"\.{member}\b", shown[name])
    }
    assert not missing


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("examples") / "run.sosr"
    words = [*SOSCOPE, "-q", "--record", str(path), "--", "cat", "/dev/null"]
    assert run(words).returncode == 0
    return path


@pytest.fixture(scope="module")
def sleeping() -> Iterator[int]:
    """Give the id of a process that sleeps, after all that it does before."""
    with subprocess.Popen(["sleep", "600"]) as process:
        nanosleep, clock_nanosleep = 35, 230  # on x86-64
        until(waits_in(process.pid, nanosleep, clock_nanosleep), "it sleeps", running=process)
        yield process.pid
        process.kill()


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_print_what_they_say(
    module: str, recording: Path, sleeping: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recording.parent)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    known = {"soscope": soscope, "pid": sleeping}
    said: list[str] = []
    tests = doctest.DocTestFinder(exclude_empty=True).find(import_module(module), globs=known)
    for test in tests:
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).attempted
    assert not said, "".join(said)


def test_all_examples_are_found() -> None:
    """Doctest looks into no cached property, and into nothing that is not a docstring."""
    assert WITH_EXAMPLES
    for module in WITH_EXAMPLES:
        known = sys.modules.get(module) or import_module(module)
        lines = Path(known.__file__ or "").read_text().count(">>> ")
        found = doctest.DocTestFinder(exclude_empty=True).find(known, module)
        assert sum(len(one.examples) for one in found) == lines, module
