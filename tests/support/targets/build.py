# SPDX-License-Identifier: Apache-2.0
"""Build the programs of tests/targets, and those of single tests.

A target says in a comment of its own how it wants to be built and run:

    // target: libs=leaf,mid; ldflags=-pthread; status=3

    libs      shared objects made of lib_NAME.c, .cc or .S and linked in, as libNAME.so
    plugins   the same, only put beside the program for dlopen
    sources   further files of the program
    script    a version script for the linker
    cflags, ldflags
    compiler  the one that can build it; pie=no: it must not be a PIE
    ifunc     address: it takes the address of a function of libc that is an IFUNC

All other words are for those who run it. Programs of a test's own are built by `made`. All are
kept (`tests/support/targets/kept.py`): a program is built once, whoever asks first.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.machines.tools import missing, need
from tests.support.targets.kept import Part, behind, kept
from tests.support.targets.matrix import PLAIN, REPOSITORY, Cell, tools, version
from tests.support.time.patience import limit

TARGETS = REPOSITORY / "tests" / "targets"
SUFFIXES = (".c", ".cc", ".S")
# What clang neither knows nor needs.
GCC_ALONE = {"-fno-ipa-ra"}
UNOPTIMISED = "-O1"  # without any, the text is larger than agent.lds has room for


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
    """Return whether a target can be built in this way at all."""
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
    beside = [*libraries.values(), *plugins.values()]
    return product(f"{cell.name}/{name}", name, command, beside)


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
    return product(f"{cell.name}/{file}", file, command, list(libraries.values()))


def compiled(file: str, words: list[str], sources: list[Path], beside: Iterable[Path] = ()) -> Path:
    """Return what the compiler and flags in `words` make of sources, with `beside` beside it."""
    command = [*words, *map(str, sources), *(path.name for path in beside), "-o", file]
    return product(f"compiled/{file}", file, command, beside)


def made(
    files: Mapping[str, Part], *commands: str | Sequence[str | Path], text: str = "", name: str = ""
) -> Path:
    """Write files into a folder, run commands in it, and return it: once for all runs.

        folder = made({"shop.c": SHOP}, "gcc -O1 shop.c -o shop", "strip shop")

    A file is its text, or the path of what it is a copy of. A command is a line, or its words;
    "{here}" in it is the folder's path, and `text` is what it gets as standard input. What it
    reads else has to be among the files, in a place that a word of it names, or a part of this
    system. The test is skipped where a command is missing.
    """
    lines = [shlex.split(one) if isinstance(one, str) else list(map(str, one)) for one in commands]
    found = {line[0]: need(line[0]) for line in lines if not line[0].startswith("./")}

    def make(folder: Path) -> None:
        for place, data in files.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(data, Path):
                shutil.copy(data, path)
            else:
                path.write_bytes(data if isinstance(data, bytes) else data.encode())
        for line in lines:
            (folder / _out(line)).parent.mkdir(parents=True, exist_ok=True)
            _run([word.replace("{here}", str(folder)) for word in line], folder, text)

    tools_of = (version(path) for path in found.values())
    parts = (part for pair in files.items() for part in pair)
    what = name or Path(next(iter(files), lines[0][-1])).name
    return kept(f"made/{what}", *parts, text, *tools_of, *_words_of(*lines), make=make)


def made_in(folder: Path, *command: str | Path, text: str = "") -> None:
    """Put into `folder` what a command makes there: of the files in it that its words name.

    It is run elsewhere, once for all runs, with copies of those and names without a place; so a
    library's place has to be "$ORIGIN". The copies that it leaves here may be changed.
    """
    words = [str(word).replace(f"{folder}/", "") for word in command]
    words = [f"{word[:2]}." if word[2:] == str(folder) else word for word in words]  # -L, -I
    files = {name: folder / name for name in sorted(_named(folder, words) - {_out(words)})}
    there = made(files, words, text=text, name=Path(_out(words)).name)
    for path in filter(Path.is_file, there.rglob("*")):
        name = path.relative_to(there)
        if str(name) not in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / name)


def need_linking(compiler: str, *flags: str) -> None:
    """Make sure that a compiler links with these flags: they may want libraries of their own.

    An empty program tells, so that a test's program that does not build is no reason to skip.
    """
    try:
        made({"empty.c": "int main(void) { return 0; }\n"}, [compiler, "empty.c", *flags])
    except AssertionError as error:
        missing(f"what '{shlex.join([compiler, *flags])}' links with ({error})")


def unoptimised(script: Path) -> None:
    """Have a build of the agent take less time, where nobody asks how quick the agent is."""
    text = script.read_text()
    assert text.count(" -O2 ") == 1, script
    script.write_text(text.replace(" -O2 ", f" {UNOPTIMISED} "))


def _named(folder: Path, words: list[str]) -> set[str]:
    """Return the files below a folder that a compiler or a linker is to read."""
    names = {name for word in words[1:] for name in re.split("[=,]", word)}
    for place in re.findall(r"(?:^|\0)(?:-L|-Wl,-rpath-link,)([^/\0][^\0]*)", "\0".join(words)):
        names |= {os.path.join(place, path.name) for path in (folder / place).glob("*.so*")}
    return {name for name in names if name[:1] != "/" and os.path.isfile(folder / name)}


def _out(words: list[str]) -> str:
    return words[words.index("-o") + 1] if "-o" in words else ""


def _words(wish: dict[str, str], key: str) -> list[str]:
    return [word for word in wish.get(key, "").split(",") if word]


def _cflags(wish: dict[str, str], cell: Cell) -> list[str]:
    left = GCC_ALONE if cell.compiler == "clang" else set()
    return [flag for flag in shlex.split(wish.get("cflags", "")) if flag not in left]


def _object(source: Path, compiler: list[str], wish: dict[str, str]) -> Path:
    """Compile a source, once for all ways of linking; return the object's path."""
    words = [*compiler, *({"-pthread"} & set(shlex.split(wish.get("ldflags", "")))), "-c"]
    return product(f"objects/{source.name}", "made.o", [*words, str(source), "-o", "made.o"])


def product(name: str, file: str, command: list[str], beside: Iterable[Path] = ()) -> Path:
    """Run `command` in a new folder that has links to `beside`; return the folder's `file`."""

    def make(folder: Path) -> None:
        for path in beside:
            for shared in path.parent.glob("*.so"):
                with contextlib.suppress(FileExistsError):  # two may bring the same one
                    os.link(shared, folder / shared.name)
        _run(command, folder)

    return kept(name, *map(str, beside), *_words_of(command), make=make) / file


def _words_of(*commands: list[str]) -> Iterator[str]:
    """Give all that the results of commands depend on."""
    yield tools()
    for command in commands:
        yield from (str(len(command)), *command, *map(behind, command))


def _run(command: list[str], folder: Path, text: str = "") -> None:
    env = {**os.environ, "TMPDIR": str(folder)}  # nothing is left of a run that is killed
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        input=text,
        capture_output=True,
        text=True,
        timeout=limit(120),
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
