# SPDX-License-Identifier: Apache-2.0
"""Targets run by other loaders than this system's: an older one and a newer one."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.recording.reader import RecordingFile
from tests.integration.loaders import SUITES, Loader, program, version
from tests.support.processes import tracing
from tests.support.processes.tracing import Case

# target, arguments, and whether children are followed
RUNS = [
    ("calls", (), False),
    ("dlopen", ("now",), False),
    ("dlopen", ("lazy",), False),
    ("dlopen", ("again",), False),
    ("dlopen", ("replace",), False),
    ("dlopen", ("fail",), False),
    ("prelinked", ("now",), False),
    ("prelinked", ("lazy",), False),
    ("dlmopen", ("one",), False),
    ("dlmopen", ("two",), False),
    ("dlmopen", ("again",), False),
    ("dlmopen", ("threads",), False),
    ("dlmopen", ("fork",), True),
    ("dlmopen", ("throw",), False),
    ("dlopen_threads", ("60",), False),
    ("cxx_throw", (), False),
    ("plugin_throw", (), False),
    ("backtrace", (), False),
    ("cancel", (), False),
    ("threads", (), False),
    ("lazy_race", (), False),
    ("fork", (), True),
]
MODES = ("count", "summary", "record")
# Each loader with one binding; `make soak` runs the others, too.
BUILDS = [
    ("bullseye", "lazy"),
    ("trixie", "now"),
    pytest.param("bullseye", "now", marks=pytest.mark.soak),
    pytest.param("trixie", "lazy", marks=pytest.mark.soak),
]


@pytest.fixture(scope="module", params=SUITES)
def loader(request: pytest.FixtureRequest) -> Loader:
    """Return one of the loaders."""
    return Loader(str(request.param))


def test_it_is_the_version_that_it_should_be(loader: Loader) -> None:
    assert version(loader) == SUITES[loader.suite]


@pytest.mark.covering(1)
@pytest.mark.parametrize(("suite", "binding"), BUILDS)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join([run[0], *run[1]]))
def test_a_target_does_the_same_and_is_counted_right(
    run: tuple[str, tuple[str, ...], bool], binding: str, suite: str, tmp_path: Path
) -> None:
    loader = Loader(suite)
    name, arguments, follow = run
    arguments = arguments or tracing.cases(name)[0].arguments
    case = Case(name, arguments)
    command = [str(program(name, binding, loader)), *arguments]
    limit = tracing.timeout(case)
    wanted = tracing.plain(command, tmp_path, limit=limit)
    assert wanted.outcome.status == 0, wanted.outcome
    select = tracing.selection(case, wanted.truth)
    found = []
    for mode in MODES:
        got = tracing.traced(
            command,
            tmp_path,
            mode=mode,
            select=select,
            follow=follow,
            orphans=case.wish.get("orphans") == "yes",
            limit=limit,
        )
        faults = tracing.faults(wanted, got, mode=mode, follow=follow)
        found += [f"{mode}: {line}" for line in faults]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.every(2)
def test_threads_one_after_another_are_told_apart(loader: Loader, tmp_path: Path) -> None:
    # each has the stack, and so the thread pointer, of the one before
    command = [str(program("cancel", "lazy", loader))]
    tracing.traced(command, tmp_path, mode="record", select="f0,f1")
    with RecordingFile.open(tmp_path / "run.sosr") as recording:
        threads = {piece.tid for piece in recording.chunks()}
    assert len(threads) > 10


@pytest.mark.every(2)
def test_an_auditor_and_its_library_are_hooked(loader: Loader, tmp_path: Path) -> None:
    auditor = program("lib_audit_calls", "now", loader).with_name("libaudit_calls.so")
    target = program("dlopen", "now", loader)
    command = ["/usr/bin/env", f"LD_AUDIT={auditor}", str(target), "now"]
    wanted = tracing.plain(command, tmp_path)
    alone = tracing.plain(command[2:], tmp_path)
    assert wanted.outcome.status == 0, wanted.outcome
    assert wanted.truth.bounds(followed=True)["f0"] > alone.truth.bounds(followed=True)["f0"]
    for mode in MODES:
        got = tracing.traced(command, tmp_path, mode=mode, select="f0,f1", follow=True)
        assert not tracing.faults(wanted, got, mode=mode, follow=True), mode
