# SPDX-License-Identifier: Apache-2.0
"""What the doctor says of images and slots, against what a trace of the same then hooks."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.launching import environment, wait_state
from tests.support.processes.resolving import Teller, teller
from tests.support.processes.run import run

SOSCOPE = [sys.executable, "-m", "soscope"]
NOTE = re.compile(
    r"^soscope: (\S+): ([\d,]+) slots hooked, 0 left alone, ([\d,]+) refused$", re.MULTILINE
)

FILES = {
    "git": ("--version",),
    "/usr/bin/python3": ("-c", "import json"),
    "perl": ("-e", "1"),
    "ruby": ("-e", "1"),
    "curl": ("--version",),
    "sqlite3": ("--version",),
}
PROCESSES = {
    "/usr/bin/python3": ("-c", "import ctypes, json, hashlib; print('ready', flush=1); input()"),
    "ruby": ("-e", "require 'json'; $stdout.sync = true; puts 'ready'; gets"),
    "perl": ("-e", "use POSIX; $| = 1; print qq(ready\\n); <STDIN>"),
}


def asked(*words: str) -> dict[str, Any]:
    done = run([*SOSCOPE, "doctor", "--json", *words], env=environment())
    subject: dict[str, Any] = json.loads(done.stdout)["subject"]
    return subject


def hooked(notes: str) -> dict[str, int]:
    """Return image -> slots that were chosen, hooked or refused, of the notes of trace -v."""
    return {
        name: int(one.replace(",", "")) + int(other.replace(",", ""))
        for name, one, other in NOTE.findall(notes)
    }


def slots(subject: dict[str, Any]) -> dict[str, int]:
    return {
        one["name"]: one["calls"] + one["loads"] if one["state"] == "hookable" else 0
        for one in subject["images"]
    }


@pytest.mark.every(3)
@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_slots_that_a_trace_hooks(name: str) -> None:
    program = os.path.realpath(need(name))
    said = slots(asked(program))
    words = [*SOSCOPE, "trace", "-c", "-v", "--from", "all", "-o", os.devnull, "--"]
    done = run([*words, program, *FILES[name]], env=environment())
    found = hooked(done.stderr)
    assert len(said) > 2
    assert {image: found[image] for image in said} == said


@pytest.mark.every(2)
@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_has_the_slots_that_a_trace_hooks(name: str) -> None:
    with attached.running([need(name), *PROCESSES[name]]) as process:
        said = slots(asked("-p", str(process.pid)))
        done = attached.trace(
            process.pid, "-c", "-v", "--from", "all", "-o", os.devnull, "--duration", "100ms"
        )
    assert done.returncode == 0
    found = hooked(done.stderr)
    found = {image: count for image, count in found.items() if not image.startswith("linux-")}
    assert len(said) > 4
    assert said == found


def test_a_process_whose_first_thread_has_ended_is_no_zombie() -> None:
    with Teller(teller("-pie", "-fPIE")) as running:
        wanted = asked("-p", str(running.pid))
        running.give("leave")
        wait_state(running.pid, "Z")
        found = asked("-p", str(running.pid))
        done = attached.trace(running.pid, "--count-only", "--duration", "50ms")
        assert done.returncode == 0, done.stderr
        assert running.tell("default", "malloc")
    assert found["path"] == wanted["path"]
    # pthread_exit has loaded another one
    assert slots(wanted).items() <= slots(found).items()
    (said,) = [one["text"] for one in found["findings"] if one["name"] == "agent"]
    assert said.endswith("can put it in, and take it out again")
