# SPDX-License-Identifier: Apache-2.0
"""Ten minutes of everything at once under each instrument: no death, and each result is right.

The programs are in tests/targets/storms. They check their own results, end only when each kind of
work was done as often as they say, and print how often.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.machines.pythons import pythons
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.run import soscope
from tests.support.targets import build
from tests.support.time.patience import limit

pytestmark = pytest.mark.soak

STORMS = build.TARGETS / "storms"
SECONDS = 75  # in each of eight ways or more: ten minutes a storm
NATIVE = (
    "trace -c -f",
    "trace --count-only -f",
    "trace -f -q --record {} --when-full overwrite --buffer 1m",
    "trace -f -q -e dlopen+dlclose+pthread_create+fork+vfork+waitpid -o /dev/null",
    "trace -k -q -e malloc+dlopen+pthread_create -o /dev/null",
    "mem run --blocks --mode exact -f",
    "mem run --blocks --mode sample=4096",
    "mem run --blocks --mode count",
    "prof run --boundary time",
)
INTERPRETED = (
    "mem run --objects",
    "mem run --objects --mode count",
    "mem run --objects --blocks -f",
    "mem run --blocks --mode exact",
    "mem run --blocks --mode sample=4096",
    "trace -k -q -e malloc+pthread_create --from all -o /dev/null",
    "trace -c -f --from all",
    "prof run --sample 200",
)
SESSIONS = (
    "mem attach --blocks --mode exact -q -o {} --duration 0.4",
    "trace -c -q -o /dev/null --duration 0.3",
    "mem attach --blocks --mode sample=4096 -q -o {} --duration 0.4",
    "trace -k -q -e malloc+dlopen+pthread_create -o /dev/null --duration 0.2",
    "mem attach --blocks --mode count -q -o {} --duration 0.4",
    "prof attach --boundary time -q -o {} --duration 0.3",
    "trace -q -o /dev/null --duration 0.1",
    "mem attach -f --blocks --mode exact -q -o {} --duration 0.2",
    "trace --count-only -q -o /dev/null --duration 0.3",
    "prof attach --sample 100 -q -o {} --duration 0.3",
)
PARTS = 8  # for slices of soak
ROUNDS = 4  # in a part: 320 sessions in all, which take ten minutes


def threads() -> list[str]:
    """Return the storm of threads, without its seconds."""
    words = ["g++", "-O1", "-g", "-pthread"]
    return [str(build.compiled("storm", words, [STORMS / "threads.cc"]))]


def ruby() -> list[str]:
    """Return the storm of Ruby, without its seconds."""
    return [need("ruby"), str(STORMS / "ruby.rb")]


def interpreters() -> list[str]:
    """Return the storm of Pythons in one process, without its seconds."""
    return [pythons()[-1], str(STORMS / "interpreters.py")]


def done(line: str) -> dict[str, int]:
    """Return how often each kind of work was done, as a storm prints it at its end."""
    kinds: dict[str, int] = json.loads(line)
    assert kinds
    assert all(kinds.values()), line
    return kinds


@pytest.mark.parametrize(
    ("storm", "way"),
    [
        *((threads, way) for way in NATIVE),
        *((ruby, way) for way in INTERPRETED),
        *((interpreters, way) for way in INTERPRETED),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_it_lives_through_a_storm(
    storm: Callable[[], list[str]],
    way: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    got = soscope(
        *way.format(tmp_path / "storm.sosr").split(),
        "--",
        *storm(),
        str(SECONDS),
        cwd=tmp_path,
        timeout=limit(1200),
    )
    assert got.returncode == 7, got.stderr[-2000:]
    ready, last = got.stdout.splitlines()[:2]
    assert ready == "ready"
    record_property("done", done(last))


@pytest.mark.parametrize("part", range(PARTS))
def test_it_lives_through_sessions_of_all_kinds(
    part: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kinds = len(SESSIONS)
    with attached.running(threads()) as process:
        for number in range(part, part + ROUNDS * kinds):
            words = SESSIONS[number % kinds].format(tmp_path / "session.sosr").split()
            got = soscope(*words, "-p", str(process.pid), timeout=limit(300))
            assert got.returncode == 0, (words, got.stderr[-2000:])
        status, out, err = attached.finish(process)
    assert status == 7, err[-2000:]
    record_property("done", {"sessions": ROUNDS * kinds, **done(out)})
