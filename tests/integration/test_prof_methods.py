# SPDX-License-Identifier: Apache-2.0
"""Functions of Python extensions, which the interpreter calls by method tables.

The extension counts its own calls; the distribution's interpreter tells of those of its own
functions by sys.setprofile.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.pythons import DISTRIBUTION, pythons
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.run import run, soscope
from tests.support.targets.extensions import TABLED, counted, extension
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run


def document(err: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(err[err.index("{") :])
    return said


@pytest.mark.every(4)
@pytest.mark.parametrize("python", pythons())
def test_an_extension_is_entered_by_its_tables(python: str, tmp_path: Path) -> None:
    command = [python, "-c", TABLED, str(tmp_path)]
    for way in ("count", "time") if python == DISTRIBUTION else ("time",):
        # no relocation names the words of the tables then, and no section header is there
        bare = ("-Wl,-z,pack-relative-relocs", "-Wl,-z,now", "-s") if way == "count" else ()
        extension(python, "tabled", tmp_path, *bare)
        options = ("--boundary", way, "-l", "tabled*", "-q", "--json")
        done = soscope("prof", "run", *options, "--", *command)
        assert done.returncode == 3, done.stderr
        said = document(done.stderr)
        rows = {row["symbol"]: row for row in said["functions"] if row["calls"]}
        assert {name: row["calls"] for name, row in rows.items()} == counted(done.stdout)
        assert {row["image"] for row in rows.values()} == {"tabled.so"}
        for arc in said["arcs"]:
            called_inside = arc["callee"] == "tabled.none" and arc["caller_image"] == "tabled.so"
            assert arc["caller_image"].startswith(("python3", "libpython3")) or called_inside
        if way == "time":
            again = rows["tabled.again"]
            assert again["total_ns"] > again["self_ns"] > 0  # tabled.none is called inside
    assert run(command).returncode == 3


# Looks functions up all the time, as it is hooked and when it is let go.
BUSY = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import tabled
functions = [tabled.none, tabled.one, tabled.Static().none, tabled.Made().defined, len]
found = {function: at for at, function in enumerate(functions)}
before, wrong, over = tabled.tables(), 0, False
def look():
    global wrong
    while not over:
        tabled.none()
        for at, function in enumerate(functions):
            wrong += found.get(function) != at
thread = threading.Thread(target=look)
thread.start()
print("ready", flush=True)
for line in sys.stdin:
    over = line == "end\\n"
    if over: break
    print(before == tabled.tables(), flush=True)
thread.join()
print("wrong", wrong)
"""


def test_a_running_interpreter_is_left_as_it_was(tmp_path: Path) -> None:
    extension(DISTRIBUTION, "tabled", tmp_path)
    with attached.running([DISTRIBUTION, "-c", BUSY, str(tmp_path)]) as process:
        words = ["prof", "attach", "-p", str(process.pid), "--boundary", "count", "--json"]
        profiler = subprocess.Popen(
            [sys.executable, "-m", "soscope", *words, "-l", "tabled*"],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        attached.assert_it_profiles(profiler, process.pid)
        process.stdin.write("look\n")
        process.stdin.flush()
        assert process.stdout.readline() == "False\n"  # the tables are others now
        until(has_run(process.pid), "the thread calls", running=process)
        profiler.send_signal(signal.SIGINT)
        out, _ = profiler.communicate(timeout=limit())
        calls = {row["symbol"]: row["calls"] for row in json.loads(out)["functions"]}
        assert calls["tabled.none"] > 0
        assert calls["tabled.tables"] == 1
        process.stdin.write("look\n")
        process.stdin.flush()
        assert process.stdout.readline() == "True\n"
        assert attached.finish(process) == (0, "wrong 0\n", "")


OWN = """
import sys, zlib, math, binascii
told = {}
def tell(frame, event, called):
    if event == "c_call":
        owner = type(called.__self__).__name__
        name = called.__self__.__name__ if owner == "module" else owner
        told[name + "." + called.__name__] = told.get(name + "." + called.__name__, 0) + 1
def work():
    packer = zlib.compressobj()
    for at in range(40):
        zlib.crc32(b"x"); math.gcd(at, 6); binascii.hexlify(b"a"); packer.compress(b"y")
        "a".zfill(3); b"a".ljust(4); b"a".zfill(2); (1, 1).count(1)
    packer.flush()
sys.setprofile(tell)
work()
sys.setprofile(None)
for name, calls in told.items():
    print(name, calls)
"""
TOLD = (
    *("zlib.crc32", "zlib.Compress.compress", "zlib.Compress.flush", "zlib.compressobj"),
    *("math.gcd", "binascii.hexlify", "str.zfill", "bytes.ljust", "tuple.count", "bytes.zfill"),
)


def test_functions_of_the_interpreter_itself() -> None:
    """They are no boundary, unless somebody names it."""
    options = ("--boundary", "count", "-q", "--json", "-l")
    done = soscope("prof", "run", *options, "python3*", "--", DISTRIBUTION, "-c", OWN)
    assert done.returncode == 0, done.stderr
    told = {name: int(calls) for name, calls in map(str.split, done.stdout.splitlines())}
    told["zlib.Compress.compress"] = told.pop("Compress.compress")
    told["zlib.Compress.flush"] = told.pop("Compress.flush")
    calls: Counter[str] = Counter()
    for row in document(done.stderr)["functions"]:
        calls[row["symbol"]] += row["calls"] or 0
    seen = {name: calls[name] for name in TOLD if name in told}
    assert {name: told[name] for name in seen} == seen
    assert len(seen) > 5
    done = soscope("prof", "run", *options[:-1], "--", DISTRIBUTION, "-c", OWN)
    names = {row["symbol"] for row in document(done.stderr)["functions"]}
    assert not names.intersection(TOLD)
