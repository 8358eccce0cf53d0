# SPDX-License-Identifier: Apache-2.0
"""A folder of the agent uses those above it in the table of docs/internals/agent.md alone.

The includes of all files say so, and the symbols that their objects define and lack. What stands
below calls what stands above it through tables that the start fills in (base/instrument.h).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.agent import hosted
from tests.support.machines.tools import need
from tests.support.targets import build
from tests.support.targets.matrix import REPOSITORY

SOURCES = hosted.AGENT / "agent"
PAGE = REPOSITORY / "docs" / "internals" / "agent.md"
# What uses more, and why. A row that is not needed any more is to go: the list only gets shorter.
LEFT = {
    ("inject", "trace"): "a call that inject lets fail is recorded as any call: by trace's writer",
}


def ranks() -> dict[str, int]:
    """Return the rank of each folder, 0 at the bottom; instruments have one rank."""
    section = PAGE.read_text().partition("\n## Its folders\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    named = [re.findall(r"`([a-z/]+)`", cell) for cell in cells]
    return {folder: rank for rank, folders in enumerate(named) for folder in folders}


RANKS = ranks()
INSTRUMENTS = {folder for folder in RANKS if list(RANKS.values()).count(RANKS[folder]) > 1}


def may_use(user: str, used: str) -> bool:
    """Whether files of one folder may use files of another.

    A folder of an instrument has what its own folders share in `common`; these do not see each
    other, and the files beside them see all of them.
    """
    own, other = user.partition("/")[0], used.partition("/")[0]
    if own != other:
        return RANKS[other] < RANKS[own]
    return user in (used, own) or used == f"{own}/common"


def folder_of(path: Path) -> str:
    return str(path.relative_to(SOURCES).parent)


def files(*suffixes: str) -> list[Path]:
    return [path for path in sorted(SOURCES.rglob("*")) if path.suffix in suffixes]


def uses_up(uses: set[tuple[str, str, str, str]]) -> list[str]:
    """Return the uses (folder, folder, file, what) that no rule allows and no reason excuses."""
    return sorted(
        f"{file}: {what} ({used})"
        for user, used, file, what in uses
        if not may_use(user, used) and (user, used) not in LEFT
    )


def includes() -> set[tuple[str, str, str, str]]:
    """Return who includes which header of the agent: (folder, folder, file, header)."""
    seen = set()
    for path in files(".c", ".h", ".S", ".inc"):
        for name in re.findall(r'^#include "(.+)"$', path.read_text(), re.MULTILINE):
            if name.startswith("soscope/"):
                assert (hosted.AGENT / "include" / name).is_file(), (path, name)
                continue
            assert (SOURCES / name).is_file(), (path, name)
            seen.add((folder_of(path), folder_of(SOURCES / name), path.name, name))
    return seen


def symbols() -> set[tuple[str, str, str, str]]:
    """Return who lacks which symbol of whom: (folder, folder, file, symbol)."""
    places: dict[str, Path] = {}
    lacks: dict[Path, set[str]] = {}
    for path, made in objects().items():
        text = hosted.output(need("nm"), "--format=posix", made)
        for name, kind in re.findall(r"^(sosc\w+) (\w)", text, re.MULTILINE):
            if kind == "U":
                lacks.setdefault(path, set()).add(name)
            elif kind.isupper():
                assert places.setdefault(name, path) == path, name
    return {
        (folder_of(path), folder_of(places[name]), path.name, name)
        for path, names in lacks.items()
        for name in names & places.keys()
    }


def objects() -> dict[Path, Path]:
    """Compile each file of the agent, in C as for the test programs; nobody links them."""
    made = {path: hosted.compiled("gcc", path, *hosted.SANITIZE) for path in files(".c")}
    words = [need("gcc"), *hosted.INCLUDES, "-c"]
    for path in files(".S"):
        made[path] = build.compiled(f"{path.stem}.S.o", words, [path])
    return made


def test_each_folder_has_a_row() -> None:
    folders = {folder_of(path).partition("/")[0] for path in files(".c", ".h", ".S", ".inc")}
    assert folders == RANKS.keys()
    assert {"trace", "count", "objects"} <= INSTRUMENTS
    assert RANKS["base"] == 0
    assert max(RANKS, key=lambda folder: RANKS[folder]) == "entry"


@pytest.mark.parametrize(
    ("user", "used", "may"),
    [
        ("ring", "base", True),
        ("base", "ring", False),
        ("count", "stats", False),
        ("objects/python", "objects/common", True),
        ("objects/python", "objects/ruby", False),
        ("objects/common", "objects/python", False),
        ("objects", "objects/ruby", True),
        ("vm", "objects/ruby", False),
        ("entry", "objects/python", True),
    ],
)
def test_what_may_use_what(user: str, used: str, *, may: bool) -> None:
    assert may_use(user, used) is may


def test_includes_point_down() -> None:
    seen = includes()
    assert len(seen) > 500
    assert not uses_up(seen)


def test_symbols_point_down() -> None:
    seen = symbols()
    assert len(seen) > 1000
    assert not uses_up(seen)
    needed = {(user, used) for user, used, _, _ in seen if not may_use(user, used)}
    assert needed == LEFT.keys()
