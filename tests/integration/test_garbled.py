# SPDX-License-Identifier: Apache-2.0
"""A program writes random words over the memory that it shares with soscope.

soscope ends, in time and with little memory, and says "complete" of no number that is wrong: the
program says how many calls it made.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import attached
from tests.support.processes.measured import Measured, measured
from tests.support.processes.tracing import is_whole
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit

SOSCOPE = [sys.executable, "-m", "soscope"]
HOSTILE = build.TARGETS / "hostile"
MOST = 1000  # MiB
MADE = 800  # calls of getenv, in four rounds
WHERE = (4, 31, 1, 2, 8, 16, 4, 12)
FILE = "recording.sosr"
GETENV = ["-e", "getenv"]
LAUNCHED = {
    "trace -c": ["trace", "-c", *GETENV],
    "trace": ["trace", *GETENV],
    "trace -k": ["trace", "-k", *GETENV],
    "trace --json": ["trace", "--format", "json", *GETENV],
    "trace -f": ["trace", "-f", *GETENV],
    "--count-only": ["trace", "--count-only", *GETENV],
    "--count-only -f": ["trace", "--count-only", "-f", *GETENV],
    "--record": ["trace", "--record", FILE, *GETENV],
    "called": ["called"],
    "inject": ["inject", "-e", "inject=getenv:retval=0:when=3"],
    "mem run": ["mem", "run", "--blocks"],
    "aggregate": ["mem", "run", "--blocks", "--aggregate", "-o", FILE],
    "sample": ["mem", "run", "--blocks", "--mode", "sample"],
    "count": ["mem", "run", "--blocks", "--mode", "count"],
    "prof run": ["prof", "run"],
}
ATTACHED = {
    "trace -p": ["trace", "-c", "--duration", "0.5s"],
    "--record -p": ["trace", "--record", FILE, "--duration", "0.5s"],
    "mem attach": ["mem", "attach", "--blocks", "-o", FILE, "--duration", "0.5s"],
    "mem live": ["mem", "live", "--blocks", "--duration", "1s"],
    "prof attach": ["prof", "attach", "--boundary", "time", "--duration", "0.5s"],
}
CALLS = re.compile(r"soscope: ([\d,]+) calls? through")
TOO_MANY = 1e9  # seconds of all threads, or losses, of runs of some seconds
SUMS = re.compile(r"([\d.]+(?:e\+\d+)?) s\b|([\d,]+) (?:events )?(?:dropped|lost)")


@pytest.fixture(scope="module")
def garbles() -> Path:
    return build.compiled("garbles", ["gcc", "-O1", "-pthread"], [HOSTILE / "garbles.c"])


def faults_of(done: Measured, status: set[int]) -> Iterator[str]:
    """Yield what is wrong with a run of soscope, whatever its target did."""
    if done.status not in status:
        yield f"status {done.status}"
    if done.peak > MOST:
        yield f"{done.peak} MiB"
    for text in (done.out, done.err):
        if "Traceback" in text or "bug in soscope" in text:
            yield text[-2000:]
        for seconds, losses in SUMS.findall(text):
            if float(seconds or losses.replace(",", "")) > TOO_MANY:
                yield f"a number that cannot be: {seconds}{losses} in {text[-2000:]}"


def is_false(name: str, said: str) -> bool:
    """Return whether numbers are called complete that are not right."""
    calls = {int(count.replace(",", "")) for count in CALLS.findall(said)}
    return "getenv" in LAUNCHED[name] and is_whole(said) and calls != {MADE}


def launched(name: str, garbles: Path, seed: int, folder: Path) -> list[str]:
    """Run one verb with the program; return what is wrong with that."""
    where = WHERE[seed % len(WHERE)]
    words = [*SOSCOPE, *LAUNCHED[name], "--", str(garbles), str(seed), str(where), "4"]
    try:
        done = measured(words, folder, timeout=limit(20))
        faults = list(faults_of(done, {0} if name == "called" else {7}))
        if str(MADE) not in done.out.split():
            faults.append("the target has not said how many calls it made")
        if name == "--record" and not faults:
            report = measured([*SOSCOPE, "report", FILE], folder, timeout=limit(20))
            faults += faults_of(report, {0, 1})  # names may not have found room
            done = done._replace(err=done.err + report.err)
        if is_false(name, done.err):
            faults.append(f"complete: {done.err[-500:]}")
    except subprocess.TimeoutExpired as error:
        faults = [f"takes too long: {error.stderr!r:.300}"]
    return [f"{name} {seed} {where}: {fault}" for fault in faults]


def observed(name: str, garbles: Path, seed: int, folder: Path) -> list[str]:
    """Look at the program with one verb while it runs; return what is wrong with that."""
    where = WHERE[seed % len(WHERE)]
    target = [str(garbles), str(seed), str(where), "6", "wait"]
    try:
        with attached.running(target) as process:
            words = [*SOSCOPE, *ATTACHED[name], "-p", str(process.pid)]
            done = measured(words, folder, timeout=limit(20))
            faults = list(faults_of(done, {0, 1, 4, 7}))
    except subprocess.TimeoutExpired as error:
        faults = [f"takes too long: {error.stderr!r:.300}"]
    return [f"{name} {seed} {where}: {fault}" for fault in faults]


@pytest.mark.parametrize("rounds", sizes(1, 100))
def test_a_program_that_writes_over_what_it_shares(
    rounds: int, garbles: Path, tmp_path: Path
) -> None:
    faults = []
    for number in range(rounds):
        for at, name in enumerate(LAUNCHED):
            faults += launched(name, garbles, number * len(LAUNCHED) + at, tmp_path)
        for at, name in enumerate(ATTACHED):
            faults += observed(name, garbles, number * len(ATTACHED) + at, tmp_path)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("how", ["trace", "--record"])
def test_records_in_a_ring_that_are_written_over(how: str, garbles: Path, tmp_path: Path) -> None:
    words = [*SOSCOPE, *LAUNCHED[how], "--", str(garbles), "3", "4", "4"]
    done = measured(words, tmp_path)
    assert done.status == 7
    if how == "--record":  # and the recording has it
        done = measured([*SOSCOPE, "report", FILE], tmp_path)
    assert "the program has written over them" in done.err
    assert " dropped" in done.err.splitlines()[-1]


def test_the_same_program_is_complete_where_it_writes_nothing(
    garbles: Path, tmp_path: Path
) -> None:
    done = measured([*SOSCOPE, *LAUNCHED["trace"], "--", str(garbles), "3", "0", "4"], tmp_path)
    assert done.out.split()[-1] == "800"
    assert "soscope: 800 calls through 1 slot of garbles" in done.err
    assert is_whole(done.err)


def test_an_interpreter_counts_objects_while_the_memory_is_written_over(
    tmp_path: Path,
) -> None:
    """The library that does it writes from inside the interpreter."""
    library = build.compiled(
        "garbles.so", ["gcc", "-O1", "-pthread", "-shared", "-fPIC"], [HOSTILE / "garbles.c"]
    )
    code = (
        "import ctypes, sys\n"
        "keep = [[i] for i in range(1000)]\n"
        "words = [b'x', b'5', b'26', b'3']\n"
        "main = ctypes.CDLL(sys.argv[1]).main\n"
        "main(4, (ctypes.c_char_p * 5)(*words))\n"
    )
    for mode in (["--objects"], ["--blocks", "--objects"]):
        words = [*SOSCOPE, "mem", "run", *mode, "--", sys.executable, "-I", "-S", "-c", code]
        done = measured([*words, library], tmp_path, timeout=limit(20))
        assert not list(faults_of(done, {7}))


def test_objects_that_say_they_are_larger_than_memory(tmp_path: Path) -> None:
    """Ten strings have another length: nothing is said of their bytes, and all of the rest."""
    code = (
        "import ctypes, os\n"
        "keep = ['x' * 50 + str(number) for number in range(100)]\n"
        "for one in keep[:10]: ctypes.c_size_t.from_address(id(one) + 16).value = 1 << 60\n"
        "os._exit(7)\n"
    )
    words = [*SOSCOPE, "mem", "run", "--objects", "--", sys.executable, "-I", "-S", "-c", code]
    done = measured(words, tmp_path, timeout=limit(20))
    assert not list(faults_of(done, {7}))
    assert "10 objects are damaged: their sizes cannot be, and are left out" in done.err
    assert "100" in done.out + done.err
