# SPDX-License-Identifier: Apache-2.0
"""code_x86_64_loads.c on compilers' code: which loads of an address are only called through.

The code is run before and after the agent has re-aimed what it takes for calls. What a
function sees of the address must stay the same, whatever was found; what is only called
should be found.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agent import hosted
from tests.agent.randomcode import random_source
from tests.support.targets.build import made

# callee-saved registers hold addresses only where the compiler hoists loads
HOISTS = "clang"
BUILDS = [
    ("clang", "-O2"),
    ("clang", "-Os"),
    ("clang", "-O3 -mbmi -mbmi2"),
    ("clang", "-O1 -fno-omit-frame-pointer"),
    ("gcc", "-O2"),
    ("gcc", "-O1"),
    ("gcc", "-O3 -mbmi"),
    ("clang", "-O0"),
    ("gcc", "-O0"),
]


class Seen(NamedTuple):
    """What code_x86_64_loads.c said of one library."""

    uses: dict[str, list[str]]
    before: dict[str, str]
    after: dict[str, str]
    calls: dict[str, int]


def names_in(text: str) -> list[str]:
    """Return the functions that a source exports."""
    words = [line.split() for line in text.splitlines() if line.startswith("EXPORT ")]
    return [row[2].partition("(")[0] for row in words]


def look(source: Path, compiler: str, flags: str, folder: Path) -> Seen:
    """Build a source with -fno-plt beside its callee, and run code_x86_64_loads.c on it."""
    driver = {"gcc": "g++", "clang": "clang++"}[compiler] if source.suffix == ".cc" else compiler
    library = (
        made(
            {source.name: source, "callee.c": hosted.HOST / "loads_callee.c"},
            "gcc -shared -fPIC -O1 callee.c -o libcallee.so",
            f"{driver} -shared -fPIC -fvisibility=hidden -fno-plt -w {flags} {source.name}"
            " libcallee.so -Wl,-rpath,$ORIGIN -o library.so",
        )
        / "library.so"
    )
    names = folder / "names"
    names.write_text("\n".join(names_in(source.read_text())) + "\n")
    seen = Seen(defaultdict(list), {}, {}, {})
    for line in hosted.check("loads", library, names).splitlines():
        kind, *rest = line.split()
        if kind == "use":
            seen.uses[rest[0]].append(rest[1])
        elif kind == "run":
            name, seen.before[rest[0]], seen.after[rest[0]], calls = rest[0], *rest[1:]
            seen.calls[name] = int(calls)
    assert set(seen.after) == set(names_in(source.read_text()))
    return seen


def changed(seen: Seen) -> dict[str, tuple[str, str, list[str]]]:
    """Return the functions that did something else after their calls had been re-aimed."""
    pairs = {name: (seen.before[name], seen.after[name]) for name in seen.after}
    return {name: (*pair, seen.uses[name]) for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.every(3)
@pytest.mark.parametrize(("compiler", "flags"), BUILDS)
def test_the_address_is_seen_by_those_who_look(compiler: str, flags: str, tmp_path: Path) -> None:
    seen = look(hosted.HOST / "loads_known.c", compiler, flags, tmp_path)
    assert not changed(seen)
    for name, uses in seen.uses.items():
        if name.startswith("keep_"):
            assert "load" in uses, name
        elif name.startswith("only_"):
            assert "load" not in uses, name
            assert seen.calls[name], name
    if compiler == HOISTS and flags != "-O0":
        assert any("called" in uses for uses in seen.uses.values())


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_handler_of_an_exception_sees_the_address(compiler: str, tmp_path: Path) -> None:
    seen = look(hosted.HOST / "loads_caught.cc", compiler, "-O2", tmp_path)
    assert not changed(seen)


def assert_random_code_does_the_same(
    compiler: str, flags: str, seed: int, folder: Path, functions: int = 120
) -> None:
    """Compile and run random code before and after its loads are changed."""
    source = folder / "random.c"
    source.write_text(random_source(random.Random(seed), functions))
    seen = look(source, compiler, flags, folder)
    assert not changed(seen)
    assert sum(seen.calls.values()) > 100


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("seed", "compiler", "flags"), [(seed, *build) for seed, build in enumerate(BUILDS[:3])]
)
def test_random_code_does_the_same(seed: int, compiler: str, flags: str, tmp_path: Path) -> None:
    assert_random_code_does_the_same(compiler, flags, seed, tmp_path, functions=40)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize(("compiler", "flags"), BUILDS[:3])
def test_much_random_code_does_the_same(
    compiler: str, flags: str, seed: int, tmp_path: Path
) -> None:
    assert_random_code_does_the_same(compiler, flags, seed, tmp_path)
