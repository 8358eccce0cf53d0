# SPDX-License-Identifier: Apache-2.0
"""Programs that children execute and nobody follows: how many they are is said, in one line.

The truth is the target's own: each program that is executed writes a byte into a pipe.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from soscope.control.outcome import ChildPrograms
from soscope.wire import layout
from soscope.wire.block import Execs
from tests.support.processes import attached
from tests.support.processes.run import soscope
from tests.support.targets import build
from tests.support.time.patience import limit

WAYS = (
    *("fork", "search", "vfork", "clone", "number", "descriptor", "spawn", "shell", "pipe"),
    *("daemon", "nobody", "threads", "all"),
)
VERBS = {
    "trace": ["trace"],
    "trace -c": ["trace", "-c"],
    "trace --count-only": ["trace", "--count-only"],
    "inject": ["inject", "-e", "inject=malloc:error=ENOMEM:when=1000000"],
    "called": ["called"],
    "mem run": ["mem", "run"],
    "mem run --blocks": ["mem", "run", "--blocks"],
    "prof run": ["prof", "run"],
}
SAID = re.compile(r"([\d,]+) programs? that (?:a child|children) executed (?:is|are) not in it")
BY_SUBPROCESS = """
import os, subprocess, sys
input()
for name in ("true", "true", "echo"):
    subprocess.run([name], stdout=subprocess.DEVNULL)
try:
    subprocess.run(["/nonexistent/program"])
except FileNotFoundError:
    pass
if not os.fork():
    os._exit(0)
os.wait()
"""


def _said(text: str) -> int:
    counts = [int(count.replace(",", "")) for count in SAID.findall(text)]
    assert len(counts) <= 1, text
    return counts[0] if counts else 0


def _executed(done: subprocess.CompletedProcess[str]) -> int:
    return int(re.findall(r"^executed (\d+)$", done.stdout, re.MULTILINE)[0])


@pytest.mark.covering(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("verb", VERBS)
def test_all_that_succeed_are_counted(verb: str, way: str) -> None:
    done = soscope(*VERBS[verb], "--", build.program("executes"), way, "2")
    assert done.returncode == (3 if verb != "called" else done.returncode), done.stderr
    assert _said(done.stderr) == _executed(done)


def test_names_are_those_of_the_files() -> None:
    done = soscope("trace", "-c", "--", "sh", "-c", "true | /bin/cat; nosuch; /bin/ls >&2; ls; :")
    line = "3 programs that children executed are not in it (cat, ls): -f follows them"
    assert f"soscope: {line}\n" in done.stderr


def test_one_program_is_one() -> None:
    done = soscope("trace", "-c", "--", "sh", "-c", "/bin/true; :")
    line = "1 program that a child executed is not in it (true): -f follows it"
    assert f"soscope: {line}\n" in done.stderr


@pytest.mark.parametrize("verb", ["trace -c", "mem run", "prof run"])
def test_nothing_is_said_where_children_are_followed(verb: str) -> None:
    words = VERBS[verb]
    done = soscope(*words, "-f", "--", build.program("executes"), "all", "1")
    assert "executed " in done.stdout
    assert not _said(done.stderr)


def test_the_command_itself_may_become_another_program() -> None:
    program = build.program("executes")
    done = soscope(
        "trace", "-c", "--", "env", "sh", "-c", '"$@"; exec "$@"', "-", program, "fork", "2"
    )
    own, of_child = (int(text) for text in re.findall(r"executed (\d+)", done.stdout))
    assert own == of_child == 2
    assert _said(done.stderr) == 1 + own  # the first is a child of the shell, and not traced


@pytest.mark.parametrize("words", [["trace", "-c"], ["called"], ["mem", "run"], ["prof", "run"]])
def test_documents_have_it(words: list[str]) -> None:
    done = soscope(*words, "--json", "--", build.program("executes"), "fork", "2")
    text = done.stdout if words == ["called"] else done.stderr
    document, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    told = {"programs": 2, "names": ["executes"], "can_follow": True}
    assert document["executed_by_children"] == told


@pytest.mark.parametrize("verb", ["trace", "mem run --blocks", "prof run"])
def test_a_recording_has_it(verb: str, tmp_path: Path) -> None:
    record = tmp_path / "run.sosr"
    option = "--record" if verb == "trace" else "-o"
    done = soscope(*VERBS[verb], option, record, "--", build.program("executes"), "spawn", "2")
    assert _said(done.stderr) == 2
    report = ["report"] if verb == "trace" else [verb.split(maxsplit=1)[0], "report"]
    shown = soscope(*report, record)
    assert _said(shown.stdout + shown.stderr) == 2


@pytest.mark.parametrize("again", [False, True])
def test_children_of_a_process_that_ran_already(again: bool) -> None:
    with attached.running(
        [sys.executable, "-c", f"print('ready', flush=True)\n{BY_SUBPROCESS}"]
    ) as it:
        if again:  # the agent that lies there is used again
            attached.trace(it.pid, "-c", "--duration", "1ms")
        tracer = attached.begin(it.pid, "-c")
        attached.finish(it)
        _, err = tracer.communicate(timeout=limit())
    assert "3 programs that children executed are not in it (true, echo): -f follows them" in err


def test_what_children_say_is_only_shown() -> None:
    page = Execs.create(None, wanted=True)
    assert page is not None
    names = layout.EXECS.offset("names")
    with open(f"/proc/self/fd/{page.fd}", "r+b", buffering=0) as file:
        file.write(b"\xff" * layout.EXECS.size)
        assert page.read() == (0, [])
        file.seek(0)
        file.write((2**63 - 1).to_bytes(8, "little"))
        file.seek(names)
        file.write(layout.EXEC.struct.pack(1, layout.EXEC_NAMED, b"\x1b[31m" * 11))
        count, called = page.read()
    page.close()
    assert count == 1 << 32
    assert called == ["\x1b[31m" * 11]
    executed = ChildPrograms()
    executed.add(count, called)
    assert executed.lines()[0].isprintable()


IN_ANOTHERS_NAME = """
import os
if not os.fork():
    if not os.getuid():
        os.setuid(65534)
    os.system(":")
    with open("/proc/self/maps") as maps:
        print(*(line for line in maps if "soscope" in line), sep="", flush=True)
    os._exit(0)
os.wait()
"""


def test_a_child_shares_nothing_but_that_page() -> None:
    done = soscope("trace", "-c", "--", sys.executable, "-c", IN_ANOTHERS_NAME)
    rows = [line.split() for line in done.stdout.splitlines() if line]
    shared = [(row[0], row[1]) for row in rows if row[1][3] == "s"]
    assert [rights for _, rights in shared] == ["rw-s"], done.stdout
    start, end = (int(addr, 16) for addr in shared[0][0].split("-"))
    assert end - start == layout.PAGE == layout.EXECS.size
