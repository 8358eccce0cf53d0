# SPDX-License-Identifier: Apache-2.0
"""A Python process that hooks itself: it does what it is told, line by line."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from select import select
from typing import Any

from tests.support.processes.launching import environment
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN, Cell
from tests.support.time import patience

PRELUDE = """
import ctypes, errno, os, sys, threading, time
import soscope

def long(library, name, *kinds):
    function = getattr(library, name)
    function.restype, function.argtypes = ctypes.c_long, kinds
    return function

# ctypes binds everything at once, unless somebody has loaded it before
for path in ({hooked!r}, {hooking!r}):
    assert ctypes.CDLL(None).dlopen(os.fsencode(path), os.RTLD_LAZY)
lib = ctypes.CDLL({hooked!r}, use_errno=True)
hooking = ctypes.CDLL({hooking!r})
lib.ask.restype = ctypes.c_char_p
ask_pid = long(lib, "ask_pid")
churn = long(lib, "churn", ctypes.c_long)
find = long(lib, "find", ctypes.c_char_p, ctypes.c_int)
child_pid, now = long(lib, "child_pid"), long(lib, "now")
pid_in_handler = long(lib, "pid_in_handler")
begin = lib.begin
begin.argtypes = (ctypes.c_int, ctypes.c_long)
made = long(lib, "made", ctypes.c_int)
allocated = ctypes.c_long.in_dll(hooking, "allocated")

def await_calls(count, *, other=False):  # by the threads of C; other: that said another pid
    wanted = made(other) + count
    while made(other) < wanted:
        time.sleep(0.001)

class Pair(ctypes.Structure):
    _fields_ = [("one", ctypes.c_long), ("other", ctypes.c_long)]

def end():
    answers = (ctypes.c_long * 3)()
    lib.end(answers)
    return list(answers)

def reasons(hook):
    return {{one.image: one.reason for one in hook.left}}

def refusal(symbol, function, **options):
    try:
        with soscope.hook(symbol, function, **options):
            return None
    except soscope.SoscopeError as error:
        return type(error).__name__, str(error), error.hint
"""

_LOOP = """
print("ready", flush=True)
for line in sys.stdin:
    text = eval(line)
    try:
        value = eval(compile(text, "told", "eval"))
    except SyntaxError:
        exec(compile(text, "told", "exec"))
        value = None
    print(repr(value), flush=True)
"""


def prelude(cell: Cell = PLAIN) -> str:
    """Return the beginning of a script that hooks: its libraries, loaded and declared."""
    return PRELUDE.format(
        hooked=str(build.library("hooked", cell)), hooking=str(build.library("hooking", cell))
    )


def run(
    script: str, cell: Cell = PLAIN, *, python: Sequence[str] = (sys.executable,)
) -> subprocess.CompletedProcess[str]:
    """Run a script behind the prelude in a process of its own, to its end."""
    return subprocess.run(
        [*python, "-X", "faulthandler", "-c", prelude(cell) + script],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience.limit(),
        check=False,
    )


def answer(script: str, cell: Cell = PLAIN) -> Any:
    """Run a script that prints one value, and nothing else; return the value."""
    done = run(script, cell)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return ast.literal_eval(done.stdout)


class Told:
    """A process that does what it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def __call__(self, text: str, *, limit: float | None = None) -> Any:
        """Have it run `text`; return the value, None of a statement."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(repr(text) + "\n")
        self.process.stdin.flush()
        seconds = patience.limit() if limit is None else limit
        assert select([self.process.stdout], [], [], seconds)[0], f"no answer to {text}"
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(timeout=patience.limit())
            assert self.process.stderr is not None
            raise AssertionError(f"{self.process.returncode}: {self.process.stderr.read()}")
        return ast.literal_eval(line)


@contextmanager
def told(
    cell: Cell = PLAIN, *, python: Sequence[str] = (sys.executable,), now: bool = True
) -> Iterator[Told]:
    """Run a process that hooks itself; `now`: the loader binds everything at the start."""
    process = subprocess.Popen(
        [*python, "-X", "faulthandler", "-c", prelude(cell) + _LOOP],
        env={**environment(), **({"LD_BIND_NOW": "1"} if now else {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Told(process)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate(timeout=patience.limit())
