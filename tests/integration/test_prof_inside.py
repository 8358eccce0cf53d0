# SPDX-License-Identifier: Apache-2.0
"""Programs that profile themselves: soscope_prof, in each Python."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import soscope_prof
from soscope import prof
from tests.support.machines.pythons import few_pythons
from tests.support.processes.run import run

PROGRAM = """\
import json, sys, threading, zlib
sys.path.append(sys.argv[1])
import soscope_prof

def work():
    for number in range(1000):
        zlib.adler32(b"abc" * 100)

threads = [threading.Thread(target=work) for _ in range(4)]
zlib.adler32(b"before")
with soscope_prof.profile(images=["libz*"], boundary=sys.argv[2]) as result:
    assert not result.functions and not result.text()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
zlib.adler32(b"after")
json.dump([result.document, result.text()], sys.stdout)
"""
PACKAGES = Path(str(soscope_prof.__file__)).parent.parent


def command_folder(folder: Path) -> str:
    """Return a PATH that has the command of the tests' own environment in front."""
    place = folder / "bin"
    place.mkdir()
    (place / "soscope").write_text(f'#!/bin/sh\nexec {sys.executable} -m soscope "$@"\n')
    (place / "soscope").chmod(0o755)
    return f"{place}:{os.environ['PATH']}"


@pytest.mark.covering(1)
@pytest.mark.parametrize("boundary", ["count", "time"])
@pytest.mark.parametrize("python", few_pythons())
def test_a_block_of_code(python: str, boundary: str, tmp_path: Path) -> None:
    packages = tmp_path / "packages"  # Pythons of other versions must not see soscope itself
    packages.mkdir()
    (packages / "soscope_prof").symlink_to(PACKAGES / "soscope_prof")
    env = {"PATH": command_folder(tmp_path), "TMPDIR": str(tmp_path)}
    done = run([python, "-c", PROGRAM, packages, boundary], env=env)
    assert (done.returncode, done.stderr) == (0, "")
    document, text = json.loads(done.stdout)
    assert document["schema"] == "soscope/prof-report/1"
    calls = {row["symbol"]: row["calls"] for row in document["functions"]}
    assert calls["adler32"] == 4000
    assert sum(arc["calls"] for arc in document["arcs"] if arc["callee"] == "adler32") == 4000
    assert "adler32" in text
    assert not list(tmp_path.glob("soscope-*"))


def test_start_and_stop() -> None:
    with pytest.raises(prof.ProfilingError, match="this process is not profiled"):
        prof.stop()
    with pytest.raises(prof.ProfilingError, match="'size' is not a mode"):
        prof.start(mode="size")
    prof.start(images="libm*")
    with pytest.raises(prof.ProfilingError, match="this process is profiled already"):
        prof.start()
    result = prof.stop()
    assert result.document["boundary"] == "time"
    assert not [note for note in result.document["notes"] if note.startswith("-l ")]
    assert prof.__all__ == soscope_prof.__all__


def test_without_a_command(tmp_path: Path) -> None:
    text = "import sys; sys.path.insert(0, sys.argv[1]); import soscope_prof; soscope_prof.start()"
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "soscope_prof").symlink_to(PACKAGES / "soscope_prof")
    python = few_pythons()[0]
    done = run([python, "-S", "-c", text, packages], env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.endswith("ProfilingError: there is no command 'soscope' on PATH")
