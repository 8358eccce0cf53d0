# SPDX-License-Identifier: Apache-2.0
"""Observe calls that instrumented code reports: `python -m tests.support.processes.reported`.

Arguments: the file for the account, the mode, the command. The account has all nodes of all
threads, with the functions by image and link-time address.
"""

from __future__ import annotations

import bisect
import functools
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from soscope.control.outcome import ProgramOutcome
from soscope.control.session import Session
from soscope.control.settings import Instrument, SessionSettings
from soscope.instruments.prof.instrumented import (
    InstrumentedCode,
    ReportedCalls,
    ThreadCalls,
    unpack,
)
from soscope.instruments.prof.model import MODE_LOG
from soscope.instruments.prof.reportedtree import reported_calls
from soscope.recording.names import in_image
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink, Tee
from soscope.wire.block import ControlBlock
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.matrix import REPOSITORY, Cell
from tests.support.time.patience import limit, until
from tests.support.time.progress import Condition, has_run

# How compilers are asked for hooks, and which of them know it.
FLAGS = {
    "pg": ["-pg"],
    "fentry": ["-pg", "-mfentry"],
    "cyg": ["-finstrument-functions"],
    "bare": ["-finstrument-function-entry-bare"],
    "patch5": ["-fpatchable-function-entry=5"],
    "patch8": ["-fpatchable-function-entry=8"],
    "patch16": ["-fpatchable-function-entry=16,8"],
}


def program(
    name: str, hooks: str, compiler: str = "gcc", opt: str = "-O2", *flags: str
) -> list[str]:
    """Return the path of a target whose library reports its calls."""
    source = build.find(name)
    words = [need(Cell(compiler).driver(source)), opt, "-g", *flags]
    library = build.compiled(
        f"lib{name}.so",
        [*words, *FLAGS[hooks], "-fPIC", "-shared", f"-Wl,-soname,lib{name}.so"],
        [build.find(f"lib_{name}")],
    )
    words += ["-pthread", "-Wl,-rpath,$ORIGIN"]
    return [str(build.compiled(name, words, [source], [library]))]


class Account:
    """What was seen of a command: `out` and `status` are its own."""

    def __init__(self, done: Any, facts: dict[str, Any]) -> None:
        self.out: str = done.stdout
        self.status: int = done.returncode
        self.facts = facts
        self.threads: list[dict[str, Any]] = [
            thread for program in facts["programs"] for thread in program["threads"]
        ]

    def calls(self, library: str, tid: int | None = None) -> dict[str, int]:
        """Add up the calls of a library's functions by name, of one thread or all."""
        sums: dict[str, int] = {}
        for thread in self.threads:
            for node in thread["nodes"] if tid in (None, thread["tid"]) else ():
                image, vaddr = node["function"]
                if os.path.basename(image) == library:
                    name = name_of(image, vaddr)
                    sums[name] = sums.get(name, 0) + node["calls"]
        return sums


def observe(mode: str, command: list[str], *, timeout: float | None = None) -> Account:
    """Run a command under observation."""
    account = Path(command[0]).with_name(f"account-{os.getpid()}")
    words = [sys.executable, "-m", "tests.support.processes.reported", str(account), mode, *command]
    done = run(words, timeout=timeout, env={"PYTHONPATH": str(REPOSITORY)})
    try:
        return Account(done, json.loads(account.read_text()))
    except FileNotFoundError:
        raise AssertionError(done.stdout + done.stderr) from None
    finally:
        account.unlink(missing_ok=True)


@functools.cache
def _functions(image: str) -> tuple[list[int], list[str]]:
    done = run([need("nm"), "-n", "--defined-only", image], timeout=limit(30))
    rows = [line.split() for line in done.stdout.splitlines()]
    found = [(int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[1] in "tTwW"]
    return [at for at, _ in found], [name for _, name in found]


def name_of(image: str, vaddr: int) -> str:
    """Return the name of the function that a link-time address lies in."""
    starts, names = _functions(image)
    # an alias of the compiler's own has a suffix
    return names[bisect.bisect_right(starts, vaddr) - 1].partition(".")[0]


def slot_of(pid: int, library: str, symbol: str) -> int:
    """Return what the slot of a symbol holds in a process."""
    found = run([need("readelf"), "-rW", library], timeout=limit(30)).stdout
    offset = int(re.findall(rf"^([0-9a-f]+) .* {symbol}", found, re.MULTILINE)[0], 16)
    maps = Path(f"/proc/{pid}/maps").read_text()
    start = int(next(row for row in maps.splitlines() if row.endswith(library)).split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(start + offset)
        return int.from_bytes(memory.read(8), "little")


class ProgramCalls(NamedTuple):
    """What one program reported: `program` has its images, `calls` are by their addresses."""

    program: ProgramOutcome
    calls: ReportedCalls


class Watched(InstrumentedCode):
    """Keeps what a recording would: `programs`, in the order in which they ended."""

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self.programs: list[ProgramCalls] = []

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        said = _Said()
        super().take(program, block, Tee(sink, said))
        self.programs += [ProgramCalls(program, unpack(calls)) for calls in said.calls]


def until_loaded(pid: int, library: str) -> None:
    """Wait for a process to have loaded a library."""
    maps = Path(f"/proc/{pid}/maps")
    until(lambda: library in maps.read_text(), f"process {pid} loads {library}")


class _Until(Session):
    """A session that ends when a condition is true, which is looked at every 10 ms."""

    def __init__(self, pid: int, instrument: Instrument, condition: Condition) -> None:
        super().__init__(SessionSettings([], pids=[pid]), [instrument])
        self._is_over = condition

    def tick(self) -> float:
        if self._is_over():
            self.stop("")
        return min(super().tick(), 0.01)


def looked(pid: int, mode: str, *, cpu: float = 0.1) -> ReportedCalls:
    """Look at a process until it has run for `cpu` more seconds, however long that takes."""
    instrument = Watched(mode)
    _Until(pid, instrument, has_run(pid, cpu=cpu)).run()
    return instrument.programs[0].calls


class _About(Instrument):
    def __init__(self, said: dict[str, object]) -> None:
        self._said = said

    def options(self) -> dict[str, object]:
        return {"prof": self._said}


def _logged(record: str, programs: list[ProgramCalls]) -> list[ProgramCalls]:
    """Return what single calls add up to, which are in the recording alone."""
    with RecordingFile.open(record) as recording:
        calls = dict(reported_calls(recording))
    os.unlink(record)
    return [ProgramCalls(each.program, calls[each.program.index]) for each in programs]


class _Said(Sink):
    def __init__(self) -> None:
        self.calls: list[dict[str, object]] = []

    def reported(self, program: int, said: dict[str, object]) -> None:
        self.calls.append(said)


def _thread(program: ProgramCalls, thread: ThreadCalls) -> dict[str, Any]:
    def place(addr: int) -> tuple[str, int]:
        _, addr = in_image(addr)
        for image in program.program.images:
            if image.start <= addr < image.end:
                return image.path, addr - image.load_bias
        return "", addr

    nodes = [
        {
            "parent": node.parent,
            "function": place(node.function),
            "caller": place(node.caller),
            "calls": node.calls,
            "timed": node.timed,
            "total": node.total_ticks,
            "self": node.self_ticks,
            "unseen": node.unseen,
        }
        for node in thread.nodes
    ]
    names = ("pid", "tid", "threads", "dropped", "left", "still_open", "unpaired", "deep")
    return {**{name: getattr(thread, name) for name in names}, "nodes": nodes}


def main() -> None:
    """Run the command, write the account, and end as it has ended."""
    account, mode, *command = sys.argv[1:]
    instrument = Watched(mode)
    record = f"{account}.sosr" if mode == MODE_LOG else None
    about = [_About({"mode": mode})] if record else []
    outcome = Session(SessionSettings(command, record=record), [instrument, *about]).run()
    if record is not None:
        instrument.programs = _logged(record, instrument.programs)
    programs = [
        {
            "costs": each.calls.costs,
            "slots": each.calls.slots,
            "foreign": each.calls.foreign,
            "entries": each.calls.entries,
            "left": each.calls.left,
            "threads": [_thread(each, thread) for thread in each.calls.threads],
        }
        for each in instrument.programs
    ]
    Path(account).write_text(json.dumps({"programs": programs}))
    if outcome.signal is not None:
        signal.signal(outcome.signal, signal.SIG_DFL)
        os.kill(os.getpid(), outcome.signal)
    os._exit(outcome.status or 0)


if __name__ == "__main__":
    main()
