# SPDX-License-Identifier: Apache-2.0
"""Builds of Python that are not read are refused with the reason, and run as if nobody asked.

The program claims to be each of them. What it exports may not be called, as in such a
build it may mean something else: it would abort.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.targets.accounts import built
from tests.support.targets.survivors import TARGETS, report, soscope

PROGRAM = (TARGETS / "claims_python.c").read_text()
NO_GIL = "3.13.15 experimental free-threading build (main, Nov 26 2026, 10:23:28) [GCC 12.2.0]"
NO_GIL_14 = "3.14.0 free-threading build (main, Oct 7 2025, 12:00:00) [GCC 14.2.0]"
TOO_NEW = "3.99.0 (main, Nov 26 2026, 10:23:28) [GCC 12.2.0]"


def recorded(path: Path, version: str, *flags: str) -> subprocess.CompletedProcess[str]:
    program = built("claims_python.c", PROGRAM, "-Wl,--export-dynamic")
    done = soscope("mem", "run", *flags, "-o", path, "--", program, version)
    assert (done.returncode, done.stdout) == (4, "1 20\n" if "--objects" in flags else "0 20\n")
    return done


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (NO_GIL, "it is a free-threaded build"),
        (NO_GIL_14, "it is a free-threaded build"),
        (TOO_NEW, "its version is not known: 3.99.0 (main, "),
    ],
)
def test_objects(version: str, why: str, tmp_path: Path) -> None:
    done = recorded(tmp_path / "rec", version, "--objects")
    assert f": its objects are not known: {why}" in done.stderr
    document = report(tmp_path / "rec")
    assert document["survivors"] == []
    assert (document["objects"], document["totals"]["objects"]) == ("off", None)
    assert "objects alive" not in soscope("mem", "report", tmp_path / "rec").stdout
    assert any(why in note for note in document["notes"])


@pytest.mark.parametrize(
    ("version", "why"), [(NO_GIL, "it is a free-threaded build"), (TOO_NEW, "its version is not")]
)
def test_blocks(version: str, why: str, tmp_path: Path) -> None:
    recorded(tmp_path / "rec", version, "--blocks")
    document = report(tmp_path / "rec")
    mine = [row for row in document["native"] if 1000 <= row["bytes"] / row["count"] < 1020]
    assert sum(row["count"] for row in mine) == 20
    assert f"frames of Python are not known: {why}" in document["notes"]


def test_calls(tmp_path: Path) -> None:
    program = built("claims_python.c", PROGRAM, "-Wl,--export-dynamic")
    out = tmp_path / "out"
    done = soscope("trace", "-k", "-e", "getcwd", "-o", out, "--", program, NO_GIL)
    assert (done.returncode, done.stdout) == (4, "0 20\n")
    assert "frames of Python are not known: it is a free-threaded build" in done.stderr
    assert out.read_text().count("getcwd(") == 20


IN_A_PROGRAM = """
import sys
sys.version = sys.argv[1]
import soscope_mem
for ask in soscope_mem.start, lambda: soscope_mem.dump_all(sys.argv[2]):
    try:
        ask()
    except soscope_mem.CountingError as error:
        print(error)
with soscope_mem.trace(sys.argv[2]):
    open("/dev/null").close()
"""


def test_a_program_that_asks_for_itself(tmp_path: Path) -> None:
    file = tmp_path / "said"
    done = run([sys.executable, "-c", IN_A_PROGRAM, NO_GIL, file])
    why = "objects cannot be counted: it is a free-threaded build"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{why}\n{why}\n", "")
    said = json.loads(file.read_text())
    assert said["fd"]["open"]["calls"] == 1
    assert why in said["unseen"]["objects"]
