# SPDX-License-Identifier: Apache-2.0
"""Draw changes of the sources, for tests/mutants.py: each line of code has the same chance."""

from __future__ import annotations

import functools
import json
import random
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.support.mutations.changes import Change, c_changes, python_changes


class Mutation(NamedTuple):
    """A change that has been drawn."""

    number: int
    file: str
    line: int
    function: str
    start: int
    end: int
    before: str
    after: str
    change: str  # the whole line, before and after


def changed(source: str, start: int, end: int, after: str) -> str:
    """Return a source with a piece of it replaced."""
    return source[:start] + after + source[end:]


def shown(source: str, change: Change) -> str:
    """Return the lines of a change in one, before and after."""
    first = source.rfind("\n", 0, change.start) + 1
    last = (source + "\n").find("\n", change.end)
    new = source[first : change.start] + change.after + source[change.end : last]
    return f"{' '.join(source[first:last].split())} -> {' '.join(new.split())}"


class _Compiler:
    """Compiles C files as CMake does, in a copy of the agent."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder = folder.resolve()
        shutil.copytree(root / "native", self._folder / "native")
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        words = ["cmake", "-S", str(self._folder / "native"), "-B", str(self._folder / "build")]
        subprocess.run([*words, *options], stdout=subprocess.DEVNULL, check=True)
        commands = json.loads((self._folder / "build" / "compile_commands.json").read_text())
        self._words = {row["file"]: shlex.split(row["command"]) for row in commands}
        self._before = functools.cache(self._compiled)

    def makes_a_difference(self, file: str, text: str) -> bool:
        """Return whether a changed file compiles, and to something else than before."""
        path = self._folder / file
        units = users(self._folder / "native", path)
        before = {unit: self._before(unit) for unit in units}
        kept = path.read_text()
        path.write_text(text)
        try:
            for unit in units:
                after = self._compiled(unit)
                if after != before[unit]:
                    return after is not None
        finally:
            path.write_text(kept)
        return False

    def _compiled(self, unit: Path) -> bytes | None:
        """Return the object that is made of a file, None if it does not compile."""
        words = self._words[str(unit)]
        made = self._folder / "made.o"
        words[words.index("-o") + 1] = str(made)
        done = subprocess.run([*words, "-w"], stderr=subprocess.DEVNULL, check=False)
        return made.read_bytes() if done.returncode == 0 else None


def users(agent: Path, path: Path) -> list[Path]:
    """Return the C files that are compiled otherwise where a file of the agent has changed."""
    if path.suffix == ".c":
        return [path]
    includes = {
        file: set(re.findall(r'^#include ["<](?:.*/)?(.*)[">]', file.read_text(), re.MULTILINE))
        for file in agent.rglob("*.[ch]")
    }
    names: set[str] = set()
    more = {path.name}
    while more:
        names |= more
        more = {file.name for file, of in includes.items() if of & names} - names
    return sorted(file for file in includes if file.suffix == ".c" and file.name in names)


def draw(root: Path, seed: int, agent: int, python: int) -> list[Mutation]:
    """Draw so many mutations of the sources below `root`."""
    c_files = sorted((root / "native" / "agent").rglob("*.[ch]"))
    modules = sorted((root / "src" / "soscope").rglob("*.py"))
    modules = [path for path in modules if path.name != "__main__.py"]
    drawn: list[Mutation] = []
    if agent:
        with tempfile.TemporaryDirectory() as folder:
            fits = _Compiler(root, Path(folder)).makes_a_difference
            drawn += _draw(root, c_files, c_changes, fits, random.Random(f"agent {seed}"), agent)
    chance = random.Random(f"python {seed}")
    drawn += _draw(root, modules, python_changes, _compiles, chance, python)
    return [mutation._replace(number=number) for number, mutation in enumerate(drawn, 1)]


def _draw(
    root: Path,
    files: list[Path],
    changes: Callable[[str], list[Change]],
    fits: Callable[[str, str], bool],
    chance: random.Random,
    count: int,
) -> list[Mutation]:
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in files}
    by_line: defaultdict[tuple[str, int], list[Change]] = defaultdict(list)
    for file, source in sources.items():
        for change in changes(source):
            by_line[file, change.line].append(change)
    lines = sorted(by_line)
    chance.shuffle(lines)
    drawn: list[Mutation] = []
    for file, line in lines:
        if len(drawn) == count:
            break
        change, source = chance.choice(by_line[file, line]), sources[file]
        _, function, start, end, after = change
        if fits(file, changed(source, start, end, after)):
            place = (0, file, line, function, start, end)
            drawn.append(Mutation(*place, source[start:end], after, shown(source, change)))
    return drawn


def _compiles(file: str, text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, file, "exec")
        except SyntaxError:
            return False
    return True
