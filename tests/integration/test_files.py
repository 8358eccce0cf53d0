# SPDX-License-Identifier: Apache-2.0
"""The files that a trace writes: what they held before, and which they may not be."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import run, soscope
from tests.support.processes.tracing import SOSCOPE
from tests.support.truth import recorded

OLD = b"what was there\n" * 1000


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old"
    path.write_bytes(OLD)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("option", ["-o", "--record"])
@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["/bin/tru"], 127),
        (["no-such-command"], 127),
        (["/"], 126),
        (["./broken"], 126),
        (["-p", "999999999"], 4),
    ],
)
def test_a_command_that_cannot_run_leaves_files_alone(
    option: str, command: list[str], status: int, old: Path
) -> None:
    broken = old.parent / "broken"
    broken.write_bytes(b"\x7fELF\2\1\1" + bytes(100))
    broken.chmod(0o755)
    dashes = [] if command[0] == "-p" else ["--"]
    done = soscope("trace", option, str(old), *dashes, *command, cwd=old.parent)
    assert done.returncode == status, done.stderr
    assert old.read_bytes() == OLD
    assert old.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("option", ["-o", "--record"])
def test_a_new_file_is_not_cut(option: str, old: Path) -> None:
    """The kernel would write it to the disk when it is closed: 0.2 s for half a gigabyte."""
    log = old.with_name("calls")
    words = [need("strace"), "-f", "-e", "ftruncate", "-o", str(log), *SOSCOPE, option]
    for path, cuts in ((old.with_name("new"), 0), (old, 1)):
        assert run([*words, str(path), "--", "/bin/true"]).returncode == 0
        assert log.read_text().count(", 0)") == cuts


@pytest.mark.parametrize("options", [["-c"], ["--count-only"], ["-e", "malloc"], ["-e", "nothing"]])
def test_a_trace_replaces_what_a_file_held(options: list[str], old: Path) -> None:
    done = soscope("trace", *options, "-o", str(old), "--", "/bin/true")
    assert done.returncode == 0
    assert b"what was there" not in old.read_bytes()
    recording = old.with_name("recording")
    recording.write_bytes(OLD)
    done = soscope("trace", "--record", str(recording), "--", "/bin/true")
    assert done.returncode == 0
    assert recorded.by_columns(recording).problems == []
    assert recording.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("option", ["-o", "--record", "--last 9s --record", "--svg"])
def test_the_program_is_not_written_over(option: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copy("/bin/true", mine)
    os.link(mine, tmp_path / "other-name")
    script = tmp_path / "script"
    script.write_text("#!./mine\n")
    script.chmod(0o755)
    before = mine.read_bytes()
    for file, command in (("mine", "./mine"), ("other-name", "./mine"), ("mine", "./script")):
        done = soscope("trace", *option.split(), file, "--", command, cwd=tmp_path)
        assert done.returncode == 125
        assert "names the program" in done.stderr
    assert mine.read_bytes() == before
    assert run([mine]).returncode == 0


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    words = ["trace", "--record", "same", "-o", "same", "-e", "malloc"]
    done = soscope(*words, "--", "true", cwd=tmp_path)
    assert done.returncode == 125
    assert "the same file" in done.stderr
    for option in ("--record", "-o"):
        done = soscope("trace", option, "same", "--svg", "same", "--", "true", cwd=tmp_path)
        assert (done.returncode, "the same file" in done.stderr) == (125, True)
    soscope("trace", "--record", "one", "--", "true", cwd=tmp_path)
    assert soscope("report", "-o", "two", "--svg", "two", "one", cwd=tmp_path).returncode == 2
    recording = (tmp_path / "one").read_bytes()
    done = soscope("report", "one", "-o", "./one", cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "one").read_bytes() == recording


@pytest.mark.parametrize("options", [["-c"], ["--count-only"], ["-e", "malloc"]])
def test_json_is_utf_8_whatever_a_path_is(options: list[str], tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/tr\xffue-\xc3\xa9"
    shutil.copy(b"/bin/true", odd)
    output = tmp_path / "output"
    words = ["trace", *options, "--from", "all", "--json", "-o", str(output)]
    done = soscope(*words, "--", os.fsdecode(odd), b"\xfe".decode(errors="surrogateescape"))
    assert done.returncode == 0
    text = output.read_bytes().decode("utf-8")
    documents = [json.loads(text)] if text.startswith("{\n") else map(json.loads, text.splitlines())
    assert "tr\\udcffue" in text
    assert list(documents)
