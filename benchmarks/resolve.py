# SPDX-License-Identifier: Apache-2.0
"""Symbols of a running process: the whole command, and the API, beside debuggers."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.measure import Failed, Figure, rounds, run, timed
from benchmarks.python_json import PYTHON
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_LIBRARIES = 500
_FUNCTIONS = 45  # exported ones of each library
_STATICS = 90
_MANY = 10_000


def _library(number: int) -> str:
    """Return the assembly of one library."""
    lines = [".text"]
    for kind, count in (("f", _FUNCTIONS), ("s", _STATICS)):
        for index in range(count):
            name = f"{kind}{number}_of_{index}"
            lines += [f".globl {name}"] if kind == "f" else []
            lines += [f".type {name}, @function", f"{name}: nop; ret; .skip 14"]
            lines += [f".size {name}, 16"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""])


def _build(tools: Tools) -> list[str]:
    """Make the libraries and the program; return its command."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or "cc"
    folder = tools.path("many")
    os.makedirs(folder, exist_ok=True)
    paths = []
    for number in range(_LIBRARIES):
        source, path = (os.path.join(folder, f"lib{number}.{end}") for end in ("s", "so"))
        with open(source, "w", encoding="ascii") as file:
            file.write(_library(number))
        run([compiler, "-shared", "-nostdlib", "-o", path, source])
        paths.append(path)
    program = tools.path("many_symbols")
    run([compiler, "-O2", "-o", program, os.path.join(TARGETS, "many_symbols.c")])
    return [program, *paths]


class _Running:
    """A process that waits until we are done."""

    def __init__(self, command: list[str]) -> None:
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.pid = self._child.pid
        assert self._child.stdout is not None
        if self._child.stdout.readline() != "ready\n":
            self.end()
            raise Failed(f"{command[0]} did not get ready")

    def end(self) -> None:
        """Kill it."""
        self._child.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()


def _command(words: list[str], reads: str = os.devnull) -> Callable[[], float]:
    """Return a case: the milliseconds of a whole command, with the file `reads` as its input."""
    return lambda: timed(words, reads).seconds * 1e3


def _peers(tools: Tools, pid: int, name: str) -> dict[str, list[str]]:
    """Return the commands by which debuggers answer the same question."""
    script = os.path.join(TARGETS, "drgn_peer.py")
    commands = {
        "gdb": ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", f"print &{name}"],
        "lldb": [
            *("lldb", "--no-lldbinit", "--batch", "-p", str(pid)),
            *("-o", f"expression (void (*)()){name}", "-o", "detach"),
        ],
        "drgn": [tools.drgn_python, script, str(pid), name],
    }
    return {peer: words for peer, words in commands.items() if peer in tools.peers}


def _right(commands: dict[str, list[str]], addr: int, table: Table) -> dict[str, list[str]]:
    """Leave out who does not answer with the address; that is not to be timed."""
    found = {}
    for peer, words in commands.items():
        try:
            said = re.findall(r"0x[0-9a-f]+", run(words, timeout=120).output)
            if addr not in [int(word, 16) for word in said]:
                raise Failed("does not find the symbol")
        except (Failed, OSError) as error:
            table.failed({f"one symbol, {peer}": str(error)})
        else:
            found[peer] = words
    return found


def _api(*words: str) -> dict[str, float]:
    """Run the script that times the API; it sees the same packages as we do."""
    script = os.path.join(TARGETS, "resolve_api.py")
    ended = run([sys.executable, script, *words], env={"PYTHONPATH": os.pathsep.join(sys.path)})
    found: dict[str, float] = json.loads(ended.output)
    return found


def _cold(tools: Tools, count: int, pid: int, table: Table) -> None:
    """Measure one symbol, by the whole command."""
    from soscope.live.process import Process

    name = f"f{_LIBRARIES // 2}_of_7"
    with Process(pid) as process:
        addr = process.resolve(name).addr or 0
    ask = [*tools.soscope, "resolve", "-p", str(pid), name]
    peers = _right(_peers(tools, pid, name), addr, table)
    cases = {
        "pass": _command([sys.executable, "-c", "pass"]),
        "soscope": _command(ask),
        "json": _command([*ask, "--json"]),
        **{peer: _command(words) for peer, words in peers.items()},
    }
    figures, failed = rounds(count, cases)
    table.failed({f"one symbol, {peer}": why for peer, why in failed.items()})
    title = f"`soscope resolve`, one symbol, {_LIBRARIES} libraries"
    base = figures["pass"]
    for case, words in (("soscope", ""), ("json", ", `--json`")):
        extra = figures[case].minus(base) if case in figures else None
        row = Row(f"{title}{words}, over `python3 -c pass`", 35, extra, unit="ms", base=base)
        if case == "soscope":
            row.peers = [(peer, figures[peer].minus(base)) for peer in peers if peer in figures]
        table.rows.append(row)
    whole = figures.get("soscope")
    for peer in peers:
        if peer in figures and whole is not None:
            ratio = figures[peer].over(whole)
            title = f"one symbol, whole command: {peer} takes longer by"
            table.rows.append(Row(title, 5, ratio, unit="x", at_least=True))


def _many(tools: Tools, count: int, pid: int, table: Table) -> None:
    """Measure ten thousand names and addresses, through the API and by the whole command."""
    from soscope.live.process import Process

    dice = random.Random(1)
    every = [f"f{number}_of_{index}" for number in range(_LIBRARIES) for index in range(_FUNCTIONS)]
    names = dice.sample(every, min(_MANY, len(every)))
    with Process(pid) as process:
        addrs = [one.addr or 0 for one in process.answers(names)]
    files = {"names": names, "addresses": [hex(addr + dice.randrange(16)) for addr in addrs]}
    for what, goal in (("names", 150), ("addresses", 200)):
        path = tools.path(what)
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(files[what]))
        values = []
        for _ in range(count):
            found = _api(str(pid), what, path)
            if found["found"] != len(names):
                raise Failed(f"{found['found']} of {len(names)} {what} found")
            values.append(found["ms"])
        title = f"API: {len(names):,} {what}, {_LIBRARIES} libraries, opening included"
        table.rows.append(Row(title, goal, Figure(values), unit="ms"))
    ask = [*tools.soscope, "resolve", "-p", str(pid)]
    cases = {
        "addresses": _command([*ask, "-"], tools.path("addresses")),
        "addresses, `--json`": _command([*ask, "--json", "-"], tools.path("addresses")),
        "names": _command([*ask, "-"], tools.path("names")),
    }
    figures, failed = rounds(count, cases)
    table.failed({f"{_MANY:,} {what}, whole command": why for what, why in failed.items()})
    for what, figure in figures.items():
        title = f"`soscope resolve -`, {_MANY:,} {what}, {_LIBRARIES} libraries, whole"
        table.rows.append(Row(title, 250 if what == "addresses" else None, figure, unit="ms"))


def _few(count: int, table: Table) -> None:
    """Measure opening, the first and further symbols of a Python process."""
    python = _Running(
        [PYTHON, "-c", "import json, time; print('ready', flush=True); time.sleep(999)"]
    )
    try:
        found = [_api(str(python.pid), "few") for _ in range(count)]
    finally:
        python.end()
    for what, goal, title in (
        ("open", 3, "open"),
        ("first", 1, "first symbol"),
        ("next", 0.1, "further symbols, each"),
    ):
        figure = Figure([one[what] for one in found])
        table.rows.append(Row(f"API, a Python process: {title}", goal, figure, unit="ms"))


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure look-ups in a process with many libraries, and in an ordinary one."""
    table = Table()
    say(f"resolve: making {_LIBRARIES} libraries")
    many = _Running(_build(tools))
    try:
        say("resolve")
        time.sleep(0.1)
        _cold(tools, max(count, 5), many.pid, table)
        _many(tools, max(count, 5), many.pid, table)
        if os.path.exists(PYTHON):
            _few(max(count, 5), table)
    except Failed as error:
        table.remarks.append(f"resolve: {error}")
    finally:
        many.end()
    return table
