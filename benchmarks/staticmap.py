# SPDX-License-Identifier: Apache-2.0
"""The static map: files of the system, one of 400 MB, and the whole command.

objdump and readelf are started for every file, as one does who wants to know something of it;
once for all files is measured, too.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import sys
from collections.abc import Callable

from benchmarks.measure import Failed, Figure, rounds, run, timed
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_FOLDERS = ("/usr/lib", "/usr/bin")
_FILES = 1000
_SECTIONS = " ".join(f"-j {one}" for one in (".plt", ".plt.sec", ".plt.got"))
_IMPORTS = 20_000
_EXPORTS = 50_000
_POINTERS = 500_000
_BYTES = 400_000_000
_EACH, _AT_ONCE = "objdump + readelf, each file", "objdump + readelf, all at once"


def _files(tools: Tools) -> tuple[str, int]:
    """Write a list of programs and libraries of this machine's kind; return it, and how many."""
    with open(sys.executable, "rb") as file:
        own = file.read(20)
    found = []
    for folder in _FOLDERS:
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                if os.path.islink(path) or not os.path.isfile(path) or path.endswith(".debug"):
                    continue
                with open(path, "rb") as file:
                    head = file.read(20)
                # the same class, byte order and processor; ET_EXEC or ET_DYN
                if head[:6] == own[:6] and head[18:] == own[18:] and head[16] in (2, 3):
                    found.append(path)
    found.sort()
    random.Random(1).shuffle(found)
    path = tools.path("files")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("".join(f"{one}\n" for one in found[:_FILES]))
    return path, len(found[:_FILES])


def _large(tools: Tools) -> str:
    """Make a shared object of 400 MB: calls, exported functions, pointers, and much else."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or "cc"
    source, path = tools.path("large.s"), tools.path("large.so")
    with open(source, "w", encoding="ascii") as file:
        file.write(".text\n")
        file.writelines(f"call imported_function_{one}@PLT\n" for one in range(_IMPORTS))
        for one in range(_EXPORTS):
            name = f"exported_function_{one}"
            file.write(f".globl {name}\n.type {name}, @function\n{name}: ret\n")
        file.write(f".skip {_BYTES}\n.data\n.p2align 3\nhere:\n")
        file.write(f".rept {_POINTERS}\n.quad here\n.endr\n")
        file.write('.section .note.GNU-stack,"",@progbits\n')
    run([compiler, "-shared", "-nostdlib", "-Wl,-z,lazy", "-o", path, source])
    os.unlink(source)
    return path


def _seconds(words: list[str]) -> Callable[[], float]:
    return lambda: timed(words).seconds


def _shell(script: str) -> Callable[[], float]:
    # objdump says 1 of a file without one of the sections
    return _seconds(["sh", "-c", f"{script}; true"])


def _peers(where: str, each: str) -> str:
    """Return a script that runs objdump and readelf over the files in a list."""
    out = "> /dev/null 2>&1"
    return (
        f"xargs {each} objdump -d {_SECTIONS} < {where} {out};"
        f" xargs {each} readelf -rW < {where} {out}"
    )


def _api(who: str, where: str) -> Callable[[], float]:
    """Return a case: the seconds that one library takes, as it says itself."""
    words = [sys.executable, os.path.join(TARGETS, "map_api.py"), who, where]

    def case() -> float:
        ended = run(words, env={"PYTHONPATH": os.pathsep.join(sys.path)})
        found: dict[str, float] = json.loads(ended.output)
        if not found["slots"]:
            raise Failed("found no slots")
        return found["seconds"]

    return case


def _libraries() -> list[str]:
    """Return the parsers that can be asked here."""
    from importlib.util import find_spec

    modules = {"lief": "lief", "pyelftools": "elftools"}
    return [name for name, module in modules.items() if find_spec(module) is not None]


def _many(tools: Tools, count: int, table: Table) -> None:
    where, number = _files(tools)
    libraries = _libraries()
    out = shlex.quote(tools.path("map.json"))
    command = f"{shlex.join(tools.soscope)} map --json $(cat {where}) > {out}"
    cases = {
        "api": _api("soscope", where),
        "json": _shell(command),
        _EACH: _shell(_peers(where, "-n 1")),
        _AT_ONCE: _shell(_peers(where, "")),
        **{name: _api(name, where) for name in libraries},
    }
    figures, failed = rounds(count, cases)
    table.failed({f"map, {name}": why for name, why in failed.items()})
    title = f"map: {number:,} ELF files of the system"
    for case, words, goal in (("api", "API", 6), ("json", "`soscope map --json` into a file", 2)):
        own = figures.get(case)
        row = Row(f"{title}, {words}", None, own, unit="s")
        shown = [_EACH, _AT_ONCE, *(libraries if case == "api" else [])]
        row.peers = [(name, figures[name]) for name in shown if name in figures]
        table.rows.append(row)
        if own is not None and _EACH in figures:
            ratio = figures[_EACH].over(own)
            text = f"{title}, {words}: objdump and readelf take longer by"
            table.rows.append(Row(text, goal, ratio, unit="x", at_least=True))


def _one(tools: Tools, count: int, table: Table) -> None:
    path = _large(tools)
    where = tools.path("large")
    with open(where, "w", encoding="utf-8") as file:
        file.write(f"{path}\n")
    words = [*tools.soscope, "map", path]
    peaks: list[float] = []

    def ours() -> float:
        ended = timed(words)
        peaks.append(ended.peak_kib / 1024)
        return ended.seconds

    cases = {"soscope": ours, "objdump + readelf": _shell(_peers(where, ""))}
    cases |= {name: _api(name, where) for name in _libraries()}
    figures, failed = rounds(count, cases)
    table.failed({f"map, 400 MB, {name}": why for name, why in failed.items()})
    title = f"`soscope map` of a shared object of {_BYTES // 1_000_000} MB"
    row = Row(f"{title}, whole command", 0.6, figures.get("soscope"), unit="s")
    row.peers = [(name, figures[name]) for name in figures if name != "soscope"]
    table.rows.append(row)
    if peaks:
        table.rows.append(Row(f"{title}: peak of memory", 120, Figure(peaks), unit="MB"))
    os.unlink(path)


def _start(tools: Tools, count: int, table: Table) -> None:
    cases = {
        "pass": _seconds([sys.executable, "-c", "pass"]),
        "map": _seconds([*tools.soscope, "map", "/bin/ls"]),
    }
    figures, failed = rounds(count, cases)
    table.failed({f"map /bin/ls, {name}": why for name, why in failed.items()})
    if len(figures) == 2:
        base, own = (Figure([1e3 * one for one in figures[name].values]) for name in cases)
        title = "`soscope map /bin/ls`, over `python3 -c pass`"
        table.rows.append(Row(title, 70, own.minus(base), unit="ms", base=base))


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure maps of files."""
    table = Table()
    for text, part, times in (
        ("map: files of the system", _many, count),
        ("map: a large file", _one, count),
        ("map: the start", _start, max(count, 5)),
    ):
        say(text)
        try:
            part(tools, times, table)
        except (Failed, OSError) as error:
            table.remarks.append(f"{text}: {error}")
    return table
