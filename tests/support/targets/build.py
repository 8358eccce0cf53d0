# SPDX-License-Identifier: Apache-2.0
"""Build the programs of tests/targets.

A target says in a comment of its own how it wants to be built and run:

    // target: libs=leaf,mid; ldflags=-pthread; status=3

    libs      shared objects made of lib_NAME.c, .cc or .S and linked in, as libNAME.so
    plugins   the same, only put beside the program for dlopen
    sources   further files of the program
    script    a version script for the linker
    cflags, ldflags
    compiler  the one that can build it; pie=no: it must not be a PIE
    ifunc     address: it takes the address of a function of libc that is an IFUNC

All other words are for those who run it. Results are kept in matrix.FOLDER, under names
made of everything that went into them: a program is built once, whoever asks first.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.targets.locked import alone
from tests.support.targets.matrix import FOLDER, PLAIN, REPOSITORY, Cell, tools
from tests.support.time.patience import limit

TARGETS = REPOSITORY / "tests" / "targets"
SUFFIXES = (".c", ".cc", ".S")
# What clang neither knows nor needs.
GCC_ALONE = {"-fno-ipa-ra"}


def find(name: str) -> Path:
    """Return the source file of a target or `lib_NAME`."""
    for suffix in SUFFIXES:
        if (path := TARGETS / f"{name}{suffix}").exists():
            return path
    raise FileNotFoundError(f"no {name} with {' '.join(SUFFIXES)} in {TARGETS}")


@functools.cache
def directives(source: Path) -> dict[str, str]:
    """Return what the `target:` comment of a source says, by keyword."""
    found = re.search(r"^// target:(.*)$", source.read_text(), re.MULTILINE)
    rows = [row for row in (found[1] if found else "").split(";") if row.strip()]
    return {key.strip(): value.strip() for key, _, value in (row.partition("=") for row in rows)}


def can(name: str, cell: Cell) -> bool:
    """Tell whether a target can be built in this way at all."""
    wish = directives(find(name))
    if wish.get("ifunc") == "address" and (cell.linker, cell.pie) == ("mold", "nopie"):
        # mold 1.10 leaves IFUNC the type of the program's own stub for it: whoever looks the
        # symbol up calls the stub to hear where the function is, and dies, traced or not
        return False
    return wish.get("compiler", cell.compiler) == cell.compiler and not (
        wish.get("pie") == "no" and cell.pie == "pie"
    )


def program(name: str, cell: Cell = PLAIN) -> Path:
    """Return the path of a built target, with its shared objects beside it."""
    source = find(name)
    need(cell.driver(source))
    wish = directives(source)
    libraries = {lib: library(lib, cell) for lib in _words(wish, "libs")}
    plugins = {lib: library(lib, cell) for lib in _words(wish, "plugins")}
    sources = [source, *(TARGETS / word for word in _words(wish, "sources"))]
    compiler = [cell.driver(source), *cell.compiling(), *cell.program(), *_cflags(wish, cell)]
    command = [
        *compiler,
        *(str(_object(each, compiler, wish)) for each in sources),
        *cell.linking(),
        *(f"lib{lib}.so" for lib in libraries),
        *("-Wl,-rpath,$ORIGIN", *shlex.split(wish.get("ldflags", "")), "-o", name),
    ]
    return _made(name, cell, command, [*libraries.values(), *plugins.values()])


def library(name: str, cell: Cell = PLAIN) -> Path:
    """Return the path of a built shared object, with those that it needs beside it."""
    source = find(f"lib_{name}")
    wish = directives(source)
    libraries = {lib: library(lib, cell) for lib in _words(wish, "libs")}
    script = TARGETS / wish["script"] if "script" in wish else None
    file = f"lib{name}.so"
    compiler = [cell.driver(source), *cell.compiling(), "-fPIC", "-shared", *_cflags(wish, cell)]
    command = [
        *(*compiler, str(_object(source, compiler, wish))),
        *cell.linking(),
        *(f"lib{lib}.so" for lib in libraries),
        *([f"-Wl,--version-script={script}"] if script else []),
        *(f"-Wl,-soname,{file}", "-Wl,-rpath,$ORIGIN"),
        *(*shlex.split(wish.get("ldflags", "")), "-o", file),
    ]
    version = script.read_text() if script else ""
    return _made(file, cell, command, list(libraries.values()), version)


def compiled(file: str, words: list[str], sources: list[Path], beside: Iterable[Path] = ()) -> Path:
    """Return what the compiler and flags in `words` make of sources, with `beside` beside it."""
    command = [*words, *map(str, sources), *(path.name for path in beside), "-o", file]
    parts = [*map(_content, sources), *map(str, beside), *command]
    folder = FOLDER / "compiled" / f"{file}-{_digest(*parts)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    return _new(folder, file, command, beside)


def _words(wish: dict[str, str], key: str) -> list[str]:
    return [word for word in wish.get(key, "").split(",") if word]


def _cflags(wish: dict[str, str], cell: Cell) -> list[str]:
    left = GCC_ALONE if cell.compiler == "clang" else set()
    return [flag for flag in shlex.split(wish.get("cflags", "")) if flag not in left]


def _object(source: Path, compiler: list[str], wish: dict[str, str]) -> Path:
    """Compile a source, once for all ways of linking; return the object's path."""
    words = [*compiler, *({"-pthread"} & set(shlex.split(wish.get("ldflags", "")))), "-c"]
    folder = FOLDER / "objects" / f"{source.name}-{_digest(_content(source), *words)}"
    return _new(folder, "made.o", [*words, str(source), "-o", "made.o"])


def _made(file: str, cell: Cell, command: list[str], beside: list[Path], version: str = "") -> Path:
    """Run `command` in a new folder that has copies of `beside`; return the folder's `file`."""
    digest = _digest(version, *(str(path) for path in beside), *command)
    return _new(FOLDER / cell.name / f"{file}-{digest}", file, command, beside)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join([*parts, tools()]).encode()).hexdigest()[:16]


def _new(folder: Path, file: str, command: list[str], beside: Iterable[Path] = ()) -> Path:
    if not folder.exists():
        with alone(folder):
            if not folder.exists():
                _make(folder, command, beside)
    return folder / file


def _make(folder: Path, command: list[str], beside: Iterable[Path]) -> None:
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    try:
        for path in beside:
            for shared in path.parent.glob("*.so"):
                with contextlib.suppress(FileExistsError):  # two may bring the same one
                    os.link(shared, scratch / shared.name)
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=limit(120), check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
        os.rename(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@functools.cache
def _content(source: Path) -> str:
    """Return a source with the text of all that it includes from its own folder."""
    seen: dict[Path, str] = {}
    todo = [source]
    while todo:
        path = todo.pop()
        if path in seen or not path.exists():
            continue
        seen[path] = path.read_text()
        found = re.findall(r'^\s*#\s*include\s+"([^"]+)"', seen[path], re.MULTILINE)
        todo += [path.parent / name for name in found]
    return "\0".join(f"{path.name}\0{text}" for path, text in sorted(seen.items()))
