# SPDX-License-Identifier: Apache-2.0
"""Programs that start under breakpoints: all calls are seen, and they behave as they would alone.

The programs count their own calls.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_native_sites import SAID, SITES, ask, built_for_i386, rows, traced
from tests.support.files.elffiles import built, run
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.run import soscope
from tests.support.processes.tracing import is_whole
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

TEXT = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int twice(int value) { return 2 * value; }
int inside(int depth) { return depth ? inside(depth - 1) + 1 : twice(21); }
int main(int argc, char **argv)
{
    volatile int sum = 0;
    for (int i = 0; i < 3; i++)
        sum += (int)labs(-i) + inside(i);
    printf("%d %d\\n", sum, getppid() > 1);
    fflush(stdout);
    if (argc > 1)
        abort();
    return 7;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("started")
    return built(folder, "started", TEXT, "-O0", "-fno-builtin")


def test_output_and_end_are_the_programs(program: Path) -> None:
    for words in ([str(program)], [str(program), "x"]):
        alone = subprocess.run(words, capture_output=True, text=True, timeout=limit(), check=False)
        done = soscope("trace", *SITES, "-e", "labs", "--", *words)
        assert done.stdout == alone.stdout
        assert done.returncode == alone.returncode
        assert done.stderr.count("labs(") == 3
        assert "labs(-2)" in done.stderr
    assert "--- SIGABRT (Aborted) ---" in done.stderr
    assert "+++ killed by SIGABRT" in done.stderr


@pytest.mark.every(2)
@pytest.mark.parametrize("machine", ["x86_64", "i386"])
def test_all_calls_of_a_program_that_starts(machine: str, tmp_path: Path) -> None:
    """Threads, handlers, SIGTRAP of its own, longjmp, fork, vfork, spawning, dlopen and dlclose."""
    choice: tuple[str, ...] = SITES
    if machine == "i386":
        path, choice = built_for_i386(tmp_path), ()  # which takes no agent
    else:
        path = build.program("trapped")
    table = tmp_path / "table.json"
    words = ["-c", "--json", "-o", str(table), "-e", "labs,fork,system"]
    done = soscope("trace", *choice, *words, "--", path, input="go\n")
    said = [SAID.match(line) for line in done.stdout.splitlines()]
    assert done.returncode == 7, done.stderr
    assert said[1] is not None, done.stdout
    assert said[1].groups()[1:] == ("0", "10")
    assert rows(table) == {"labs": int(said[1][1]), "fork": 3, "system": 1}
    summary = json.loads(table.read_text())
    assert (summary["engine"], summary["arch"]) == ("sites", machine)
    assert is_whole(done.stderr)


def test_a_static_program_for_i386_is_called_static(tmp_path: Path) -> None:
    path = built(tmp_path, "alone", "int main(void) { return 7; }", "-m32", "-static")
    done = soscope("trace", "--", path)
    assert done.returncode == 7
    assert "alone ran untraced: it is statically linked" in done.stderr


def test_functions_inside(program: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    done = soscope(
        *("trace", "-x", "main", "-x", "inside", "-x", "twice", "-x", "none", "-x", "no@libc.so.6"),
        *("-c", "--json", "-o", table, "--", program),
    )
    assert done.returncode == 7
    assert rows(table) == {"main": 1, "inside": 1 + 2 + 3, "twice": 3}
    summary = json.loads(table.read_text())
    assert {row["caller"] for row in summary["rows"]} == {None}
    assert summary["engine"] == "entries"
    assert "soscope: -x none: symbol 'none' not found in started or its libraries" in done.stderr
    assert "soscope: -x no@libc.so.6: symbol 'no' not found in libc.so.6" in done.stderr
    both = soscope("trace", "-x", "inside", "-e", "labs", "--", program).stderr.splitlines()
    lines = [line.split("(")[0].split(">")[-1].strip() for line in both if "(" in line]
    assert [each for each in lines if each in ("labs", "inside")].count("inside") == 6
    assert lines.count("labs") == 3


def test_functions_inside_that_a_debug_file_alone_names(tmp_path: Path) -> None:
    text = """
        __attribute__((noinline)) static int inner(int n) { return n ? inner(n - 1) + 1 : 0; }
        int main(int count, char **words) { (void)words; return inner(count + 3); }
    """
    path = built(tmp_path, "split", text, "-g", "-fno-optimize-sibling-calls")
    table = tmp_path / "table.json"
    command = ["trace", "-x", "inner*", "-c", "--json", "-o", str(table), "--", str(path)]
    whole = soscope(*command)
    counted = rows(table)
    for words in (
        ["--only-keep-debug", f"{path}", f"{path}.debug"],
        ["--strip-all", f"{path}"],
        [f"--add-gnu-debuglink={path}.debug", f"{path}"],
    ):
        run("objcopy", *words)
    split = soscope(*command)
    assert whole.returncode == split.returncode == sum(counted.values()) - 1
    assert rows(table) == counted


def test_functions_inside_of_a_process_that_runs(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    words = ("-x", "labs@libc.so.6", "-c", "--json", "-o", str(table))
    with attached.running([build.program("trapped")]) as process:
        before = attached.snapshot(process.pid)
        with traced(process.pid, *words):
            said = SAID.match(ask(process))
        assert said is not None
        assert said.groups()[1:] == ("0", "10")
        assert rows(table) == {"labs": int(said[1])}
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "", "")


def test_a_program_whose_soscope_is_killed_goes_on(tmp_path: Path) -> None:
    words = ("trace", *SITES, "-c", "-o", str(tmp_path / "table"), "--")
    with subprocess.Popen(
        [sys.executable, "-m", "soscope", *words, str(build.program("trapped"))],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        program, *_ = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        works = has_run(int(program))
        assert not works()  # it waits
        process.stdin.write("go\n")
        process.stdin.flush()
        until(works, "it is in the middle of its work", running=process)
        process.kill()
        assert " wrong 0 " in process.stdout.readline()
        process.stdin.write("go\n")
        process.stdin.flush()
        assert " wrong 0 trapped 20" in process.stdout.readline()


def test_what_is_refused_is_said(program: Path, tmp_path: Path) -> None:
    static = built(tmp_path, "static", TEXT, "-static")
    done = soscope("trace", *SITES, "--", static)
    assert (done.returncode, done.stdout) == (125, "")
    assert "it is statically linked: there are no slots" in done.stderr
    done = soscope("trace", *SITES, "--", tmp_path / "missing")
    assert done.returncode == 127
    broken = tmp_path / "broken"
    broken.write_text("#!/nonexistent/interpreter\n")
    broken.chmod(0o755)
    done = soscope("trace", *SITES, "--", broken)
    assert (done.returncode, done.stdout) == (126, "")
    for words in (("--engine", "poison"), ("--check",)):
        done = soscope("trace", *words, "--", program)
        assert done.returncode == 125
        assert "it is for x86-64, as this machine is" in done.stderr
