# SPDX-License-Identifier: Apache-2.0
"""What every test may rely on; tests/support/ holds the tools themselves."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import tempfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.machines import tools
from tests.support.machines.gaps import gap
from tests.support.processes import leftovers, surroundings
from tests.support.targets.covering import choose
from tests.support.time import order
from tests.support.time.patience import limit

CHOICES = ("covering", "every")  # marks of a test that `make test` runs with some parameters alone
SOAK_LIMIT = 7200.0  # seconds of the usual machine that a test of `make soak` may take
_HERE = Path(__file__).parent
_COLLECT_AFTER = 20_000  # new objects; Python's own limit suits short programs

surroundings.settle()
# Its own limit of 200 ms for an example is one of wall time: it ends tests on a busy machine.
hypothesis.settings.register_profile("soscope", deadline=None)
hypothesis.settings.load_profile("soscope")
# A test that hangs fails; it must not take the whole run with it. It has room for some of its own
# waits, which grow with the machine's load as this does.
os.environ.setdefault("PYTEST_TIMEOUT", f"{limit(300):.0f}")


pytest_plugins = ["tests.support.time.stumbles"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption("--soak", action="store_true", help="run the long tests, and only them")
    parser.addoption("--slice", default="1/1", help="run one part of several, as in 3/8")
    order.add_option(parser)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin as every run does, whatever this one has inherited."""
    surroundings.settle_environment()
    for plugin in (order, leftovers):
        config.pluginmanager.register(plugin)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Make no items of `soak` tests where they would be left out: they are ten thousand."""
    if not name.startswith("test") or collector.config.getoption("--soak"):
        return None
    is_soak = any(mark.name == "soak" for mark in getattr(obj, "pytestmark", ()))
    return [] if is_soak else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep `soak` tests apart from all others, and give them time of their own."""
    soak = beyond_choice(items)
    soak.update(item.nodeid for item in items if item.get_closest_marker("soak") is not None)
    wanted = bool(config.getoption("--soak"))
    part, of = _slice(config.getoption("--slice"))
    # by their names: tests come in another order each time
    names = sorted(item.nodeid for item in items if (item.nodeid in soak) == wanted)
    kept = {*names[part % of :: of], *config.args}  # a test that is named always runs
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]
    for item in items:
        if item.nodeid in soak:
            item.add_marker(pytest.mark.timeout(limit(SOAK_LIMIT)))
        if (reason := gap(item.nodeid)) is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


def _slice(text: str) -> tuple[int, int]:
    """Read "3/8"; raises UsageError for what is no part of several."""
    part, _, of = text.partition("/")
    if not (part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of)):
        raise pytest.UsageError(f"--slice {text}: give a part and their number, as in 3/8")
    return int(part), int(of)


def beyond_choice(items: list[pytest.Item]) -> set[str]:
    """Return the tests whose function wants a choice of its parameters, and that are not in it."""
    families: dict[str, list[pytest.Function]] = {}
    for item in items:
        if item.get_closest_marker("soak") is not None or not isinstance(item, pytest.Function):
            continue
        if any(map(item.get_closest_marker, CHOICES)):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    others: set[str] = set()
    for family in families.values():
        family.sort(key=lambda item: item.nodeid)  # they come in another order each time
        others.update(item.nodeid for item in family)
        others.difference_update(family[number].nodeid for number in _chosen(family))
    return others


def _chosen(family: list[pytest.Function]) -> list[int]:
    """Return which of a function's tests are in its choice."""
    mark = next(filter(None, map(family[0].get_closest_marker, CHOICES)))
    options = dict(mark.kwargs)
    always = options.pop("always", ())
    ids = [item.nodeid.partition("[")[2] for item in family]
    first = [number for number, test in enumerate(ids) if any(word in test for word in always)]
    if mark.name == "every":
        # functions begin with different rows, so that each interpreter and each machine is met
        number = min(mark.args[0], len(family))
        begin = zlib.crc32(family[0].originalname.encode()) % number
        return sorted({*first, *range(begin, len(family), number)})
    return choose(list(map(_row, family)), *mark.args, first=first, **options)


def _row(item: pytest.Function) -> dict[str, str]:
    """Return the values of a test's parameters, a NamedTuple's fields each for itself."""
    row = {}
    for name, value in item.callspec.params.items():
        fields = getattr(value, "_asdict", lambda name=name, value=value: {name: value})()
        row.update({field: repr(value) for field, value in fields.items()})
    return row


def pytest_collection(session: pytest.Session) -> None:
    """Import the modules of tests, each worker from another one on.

    To rewrite the asserts of all modules takes a third of a minute. What a worker has rewritten
    the others find in a cache, unless they work at the same module.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    modules = sorted(_HERE.rglob("test_*.py"))
    first = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in modules[first:] + modules[:first]:
        name = ".".join(path.relative_to(_HERE.parent).with_suffix("").parts)
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection tells of it
            importlib.import_module(name)


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from the tests: it would look at all of them each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


@pytest.fixture(scope="module", autouse=True)
def _nothing_to_collect_twice() -> Iterator[None]:
    """Keep the garbage collector away from what a module's tests leave in caches."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A folder that every user can read; the others are for whoever runs the tests alone."""
    with tempfile.TemporaryDirectory(prefix="soscope-test-") as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure in CI, unless it says that the machine cannot do it."""
    report = yield
    leftovers.note(item, report)
    if report.skipped and tools.strict() and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if tools.NOT_HERE not in reason:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} was skipped where nothing may be: {reason}"
    return report
