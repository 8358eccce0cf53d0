# SPDX-License-Identifier: Apache-2.0
"""Observe calls that instrumented code reports: `python -m tests.support.reported`.

Arguments: the file for the account, the mode, the command. The account has all nodes of all
threads, with the functions by image and link-time address.
"""

from __future__ import annotations

import bisect
import functools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from soscope.control.session import Session
from soscope.control.settings import SessionSettings
from soscope.instruments.prof.instrumented import InstrumentedCode, ProgramCalls
from soscope.instruments.prof.tree import ThreadCalls
from tests.support import build
from tests.support.matrix import REPOSITORY, Cell
from tests.support.run import run
from tests.support.tools import need

# How compilers are asked for hooks, and which of them know it.
FLAGS = {
    "pg": ["-pg"],
    "fentry": ["-pg", "-mfentry"],
    "cyg": ["-finstrument-functions"],
    "bare": ["-finstrument-function-entry-bare"],
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


def observe(mode: str, command: list[str], *, timeout: float = 60) -> Account:
    """Run a command under observation."""
    account = Path(command[0]).with_name(f"account-{os.getpid()}")
    words = [sys.executable, "-m", "tests.support.reported", str(account), mode, *command]
    done = run(words, timeout=timeout, env={"PYTHONPATH": str(REPOSITORY)})
    try:
        return Account(done, json.loads(account.read_text()))
    except FileNotFoundError:
        raise AssertionError(done.stdout + done.stderr) from None
    finally:
        account.unlink(missing_ok=True)


@functools.cache
def _functions(image: str) -> tuple[list[int], list[str]]:
    done = run([need("nm"), "-n", "--defined-only", image], timeout=30)
    rows = [line.split() for line in done.stdout.splitlines()]
    found = [(int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[1] in "tTwW"]
    return [at for at, _ in found], [name for _, name in found]


def name_of(image: str, vaddr: int) -> str:
    """Return the name of the function that a link-time address lies in."""
    starts, names = _functions(image)
    # an alias of the compiler's own has a suffix
    return names[bisect.bisect_right(starts, vaddr) - 1].partition(".")[0]


def _thread(program: ProgramCalls, thread: ThreadCalls) -> dict[str, Any]:
    def place(addr: int) -> tuple[str, int]:
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
    names = ("pid", "tid", "threads", "dropped", "left", "unpaired", "deep")
    return {**{name: getattr(thread, name) for name in names}, "nodes": nodes}


def main() -> None:
    """Run the command, write the account, and end as it has ended."""
    account, mode, *command = sys.argv[1:]
    instrument = InstrumentedCode(mode)
    outcome = Session(SessionSettings(command), [instrument]).run()
    programs = [
        {
            "costs": each.calls.costs,
            "slots": each.calls.slots,
            "foreign": each.calls.foreign,
            "threads": [_thread(each, thread) for thread in each.calls.threads],
        }
        for each in instrument.programs
    ]
    facts = {"programs": programs, "ns_per_tick": instrument.ns_per_tick}
    Path(account).write_text(json.dumps(facts))
    if outcome.signal is not None:
        signal.signal(outcome.signal, signal.SIG_DFL)
        os.kill(os.getpid(), outcome.signal)
    os._exit(outcome.status or 0)


if __name__ == "__main__":
    main()
