# SPDX-License-Identifier: Apache-2.0
"""What starts the tests changes nothing that a test and its programs see."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.support.processes.run import run
from tests.support.targets.matrix import REPOSITORY

SETTLED = """
from tests.support.processes import surroundings

surroundings.settle()
surroundings.settle_environment()
"""
SEEN = """
import json, os, resource, signal, subprocess, sys

LOOK = '''
import json, os, resource, signal
status = dict(line.split(":\\\\t") for line in open("/proc/self/status") if ":\\\\t" in line)
print(json.dumps({
    "ignored": status["SigIgn"], "blocked": status["SigBlk"], "umask": status["Umask"],
    "limits": [resource.getrlimit(which)[0] for which in range(16)],
    "descriptors": sorted(set(os.listdir("/proc/self/fd")) - {"3"}),
    "environment": [name for name in sorted(os.environ) if name[:6] not in ("PYTEST", "SOSCOP")],
    "input": os.read(0, 1).decode(),
}))
'''

def test_what_a_program_sees():
    with open(os.environ["SOSCOPE_TEST_SEEN"], "w") as out:
        subprocess.run([sys.executable, "-c", LOOK], stdout=out, check=True)
"""
# A shell's words before the command.
ODD = {
    "script": "trap '' INT QUIT HUP TERM USR1 CHLD TTOU; umask 077; exec <&- 7</etc/passwd; exec",
    "few files": "ulimit -Sn 64; ulimit -Ss unlimited; exec",
    "nohup": "exec nohup",
    "environment": "PYTHONDONTWRITEBYTECODE=1 LD_BIND_NOW=1 LC_ALL=C TZ=Asia/Tokyo GIT_DIR=/ exec",
}


def seen(folder: Path, before: str) -> dict[str, object]:
    """Return what a program of a test sees if a shell starts the tests so."""
    (folder / "conftest.py").write_text(SETTLED)
    (folder / "test_it.py").write_text(SEEN)
    (folder / "pytest.ini").write_text("[pytest]\n")
    told = folder / "seen"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    env = {"PYTHONPATH": str(REPOSITORY), "SOSCOPE_TEST_SEEN": str(told)}
    done = run(["sh", "-c", f'{before} "$@"', "sh", *words], cwd=folder, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return cast(dict[str, object], json.loads(told.read_text()))


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return seen(tmp_path_factory.mktemp("usual"), "exec")


@pytest.mark.slow
@pytest.mark.parametrize("how", ODD)
def test_programs_see_the_same_whoever_starts_the_tests(
    usual: dict[str, object], tmp_path: Path, how: str
) -> None:
    assert usual["umask"] == "0022\n"
    assert seen(tmp_path, ODD[how]) == usual
    assert not (tmp_path / "nohup.out").exists()
