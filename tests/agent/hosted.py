# SPDX-License-Identifier: Apache-2.0
"""Compile the agent's C files for this machine, with sanitizers, into test programs.

Each program of tests/agent/host checks by itself, or prints what a test compares. The
assembly is left out: host.c stands in for it.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import limit

HOST = REPOSITORY / "tests" / "agent" / "host"
AGENT = REPOSITORY / "native"
INCLUDES = (f"-I{AGENT / 'include'}", f"-I{AGENT / 'agent'}", f"-I{HOST}")
# What starts the agent and writes into images is seen at work in tests/integration, and so is
# what the second half names: no test program calls it.
LEFT_OUT = {
    "hook",
    "load",
    "loader",
    "methods",
    "preload",
    "relocation",
    "known",
    "slot",
    "start",
    "turns",
    "unwind",
    "counter",
    "program",
}
# All of the agent is compiled once more for the second.
COMPILERS = ("gcc", pytest.param("clang", marks=pytest.mark.soak))
# Nearly all time goes into compilers. Lines are all that a sanitizer says of a place.
SANITIZE = ("-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# gcc and clang disagree about warnings; the agent's own build has them.
FLAGS = ("-std=gnu17", "-O1", "-w", "-fno-omit-frame-pointer", "-pthread")
# Folders with nothing in the way of a record that a test without sanitizers steps through.
NOT_STEPPED = {"stack", "vm", "blocks", "objects", "common", "python", "ruby", "tally", "prof"}
# The agent's own memcpy is hidden from a libc that has one; see host.c and string.c. What memory.c
# copies belongs to a target, and is no object of this program either.
COPIES = tuple(f"-D{name}=agent_{name}" for name in ("memcpy", "memset", "memcmp"))
USES_OWN = {"memory.c", "string.c"}
OWN_COPIES = tuple(f"-D{name}=own_{name}" for name in ("memcpy", "memset", "memcmp"))
# A target's stack and code are not objects of this program.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@functools.cache
def objects(compiler: str, *flags: str) -> tuple[Path, ...]:
    """Compile everything but the test programs themselves, once."""
    units = [path for path in sorted((AGENT / "agent").rglob("*.c")) if path.stem not in LEFT_OUT]
    units.append(HOST / "host.c")
    made = {unit: compiled(compiler, unit, *flags) for unit in _shared_out(units)}
    return tuple(made[unit] for unit in units)


def compiled(compiler: str, unit: Path, *flags: str) -> Path:
    """Compile one file of the agent, or of the host."""
    copies = OWN_COPIES if unit.name in USES_OWN else COPIES
    more = ["-O0"] if unit.parent.name in NOT_STEPPED else []
    words = [need(compiler), *FLAGS, *flags, *more, *copies, *INCLUDES, "-c"]
    return build.compiled(f"{unit.stem}.o", words, [unit])


def _shared_out(work: list[Path]) -> list[Path]:
    """Return work in the order for this worker: every other one of them begins at the end."""
    digits = "".join(filter(str.isdigit, os.environ.get("PYTEST_XDIST_WORKER", "")))
    return work[::-1] if int(digits or "0") % 2 else work


@functools.cache
def program(name: str, compiler: str = "gcc", *, sanitize: bool = True) -> Path:
    """Return a test program of tests/agent/host, compiled."""
    flags = SANITIZE if sanitize else ()
    words = [need(compiler), *FLAGS, *flags, *COPIES, *INCLUDES]
    linked = [HOST / f"{name}.c", *objects(compiler, *flags)]
    return build.compiled(name, [*words, "-ldl"], linked)


def check(
    name: str,
    *arguments: str | os.PathLike[str],
    compiler: str = "gcc",
    sanitize: bool = True,
) -> str:
    """Run a test program that has to end well; return what it printed."""
    words = [program(name, compiler, sanitize=sanitize), *arguments]
    done = run(words, timeout=limit(120), env=OPTIONS)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def output(*words: str | os.PathLike[str]) -> str:
    """Return what a tool prints; readelf ends with 1 when it only wants to warn."""
    done = run(words, timeout=limit(120))
    assert done.stdout, done.stderr
    return done.stdout
