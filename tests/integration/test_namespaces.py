# SPDX-License-Identifier: Apache-2.0
"""Images in namespaces of their own: told apart, with errno of their own, and auditors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from soscope.recording.reader import RecordingFile
from tests.support.processes import tracing
from tests.support.processes.run import run, soscope
from tests.support.targets import build

# env changes nothing for soscope itself, which is no plain C program.
ENV = "/usr/bin/env"


def test_errno_is_that_of_the_callers_own_c_library(tmp_path: Path) -> None:
    command = [str(build.program("dlmopen")), "errors"]
    done = soscope("trace", "-e", "open@libspace.so", "--json", "--", *command, cwd=tmp_path)
    rows = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    calls = [row for row in rows if row.get("symbol") == "open"]
    assert len(calls) == 9, done.stderr
    assert {row["errno"] for row in calls} == {"ENOENT"}


def test_a_line_names_the_namespace_of_its_caller(tmp_path: Path) -> None:
    command = [str(build.program("dlmopen")), "errors"]
    done = soscope("trace", "-v", "-e", "open@libspace.so", "--", *command, cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert len([line for line in lines if line.startswith("libspace.so[1]->open(")]) == 5
    assert len([line for line in lines if line.startswith("libspace.so[2]->open(")]) == 2
    assert len([line for line in lines if line.startswith("libspace.so->open(")]) == 2
    assert any("libleaf.so[1]: " in line for line in lines)


def test_a_recording_knows_the_namespace(tmp_path: Path) -> None:
    command = [str(build.program("dlmopen")), "two"]
    file = tmp_path / "run.sosr"
    done = soscope("trace", "-q", "--from", "all", "--record", file, "--", *command)
    assert done.returncode == 0, done.stderr
    with RecordingFile.open(file) as recording:
        spaces = {(image.name, image.namespace) for image in recording.images}
        loaders = [image for image in recording.images if image.name.startswith("ld-linux")]
    assert {("libspace.so", 1), ("libspace.so", 2), ("libplug_a.so", 0)} <= spaces
    assert {("libc.so.6", number) for number in (0, 1, 2)} <= spaces
    assert len(loaders) == 1  # all namespaces have the same
    assert not loaders[0].flags & 32  # and it is never closed


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", tracing.MODES)
def test_an_auditor_and_its_library_are_hooked(mode: str, tmp_path: Path) -> None:
    auditor = build.library("audit_calls")
    command = [ENV, f"LD_AUDIT={auditor}", str(build.program("dlopen")), "now"]
    wanted = tracing.plain(command, tmp_path)
    assert wanted.outcome.status == 0, wanted.outcome
    alone = tracing.plain(command[2:], tmp_path)
    assert sum(fact.low for fact in wanted.truth.facts) > sum(
        fact.low for fact in alone.truth.facts
    )
    got = tracing.traced(command, tmp_path, mode=mode, select="f0,f1", follow=True)
    if found := tracing.faults(wanted, got, mode=mode, follow=True):
        pytest.fail("\n".join(found), pytrace=False)


def test_auditors_are_said_to_be_hooked_late(tmp_path: Path) -> None:
    command = [ENV, f"LD_AUDIT={build.library('audit_calls')}", str(build.program("calls"))]
    words = [sys.executable, "-m", "soscope", "trace", "-f", "-c", "--from", "all", "--", *command]
    done = run(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    late = [line for line in done.stderr.splitlines() if "hooked late" in line]
    assert len(late) == 1
    assert "libaudit_calls.so[1]" in late[0]
