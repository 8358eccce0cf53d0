# SPDX-License-Identifier: Apache-2.0
"""Programs that need ptrace themselves end, and print, as they do without soscope."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.machines.tools import need, not_here
from tests.support.processes.run import run
from tests.support.targets.build import made_in, need_linking

TRACE = [sys.executable, "-m", "soscope", "trace"]
MODES = (["-e", "puts"], ["-f", "-e", "puts"], ["-f", "-c"])
LEAKS = "its leak check needs ptrace itself"
LEAK = """
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    void *volatile kept;
    int main(int count, char **words)
    {
        kept = strdup("kept");
        if (count > 1 && !strcmp(words[1], "leak"))
            kept = NULL;
        if (count > 1 && !strcmp(words[1], "fork") && !fork()) {
            puts("child");
            fflush(stdout);
            _exit(0);
        }
        while (wait(NULL) > 0)
            ;
        puts("one");
        puts("two");
        return 0;
    }
"""
TRACED = """
    #include <stdio.h>
    #include <sys/ptrace.h>
    int main(void)
    {
        fprintf(stderr, "traceme: %s\\n", ptrace(PTRACE_TRACEME, 0, 0, 0) ? "refused" : "done");
        return 0;
    }
"""


def built(folder: Path, compiler: str, text: str, *flags: str) -> Path:
    source, program = folder / "program.c", folder / "program"
    source.write_text(text)
    need_linking(compiler, *flags)
    made_in(folder, compiler, "-O1", "-g", "-w", *flags, source, "-o", program)
    return program


@pytest.mark.covering(1)
@pytest.mark.parametrize("sanitizer", ["address", "leak"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_leak_check_finds_what_it_finds_alone(
    tmp_path: Path, compiler: str, sanitizer: str
) -> None:
    program = built(tmp_path, compiler, LEAK, f"-fsanitize={sanitizer}")
    for word in ("clean", "leak"):
        alone = run([program, word])
        for mode in MODES:
            done = run([*TRACE, *mode, "-o", os.devnull, "--", program, word])
            assert (done.stdout, done.returncode) == (alone.stdout, alone.returncode), mode
            assert ("SUMMARY" in done.stderr) == ("SUMMARY" in alone.stderr)
            assert LEAKS in done.stderr
            assert "-f" not in mode or "not complete" in done.stderr


def test_a_followed_command_starts_programs_that_check_leaks(tmp_path: Path) -> None:
    """They are seen to their ends, whoever outlives whom, and what they start is quiet."""
    program = built(tmp_path, "gcc", LEAK, "-fsanitize=leak")
    pause = f"{sys.executable} -c 'import os, time\nwhile os.getppid() == {{}}: time.sleep(.01)'"
    script = f"{program} leak 2>/dev/null; echo $?; {program} fork; ({pause}; exec {program}) &"
    script = script.format("$$")
    file = tmp_path / "lines"
    done = run([*TRACE, "-f", "-e", "puts", "-o", file, "--", "sh", "-c", script])
    alone = run(["sh", "-c", script])
    assert done.returncode == alone.returncode == 0
    assert sorted(done.stdout.split()) == sorted(alone.stdout.split())
    lines = [line for line in file.read_text().splitlines() if "->puts(" in line]
    assert sum('program->puts("one")' in line for line in lines) == 3
    assert not [line for line in lines if "child" in line]


def test_where_no_leaks_are_looked_for_children_are_followed(tmp_path: Path) -> None:
    program = built(tmp_path, "gcc", LEAK, "-fsanitize=address")
    file = tmp_path / "lines"
    words = [*TRACE, "-f", "-e", "puts", "-o", str(file), "--", str(program), "fork"]
    for options in (
        {"ASAN_OPTIONS": "verbosity=0:detect_leaks=0"},
        {"ASAN_OPTIONS": "detect_leaks=1", "LSAN_OPTIONS": "detect_leaks=false"},
    ):
        done = run(words, env=options)
        assert done.returncode == 0
        assert LEAKS not in done.stderr
        assert 'program->puts("child")' in file.read_text()
    done = run(words, env={"ASAN_OPTIONS": "detect_leaks=0", "LSAN_OPTIONS": "detect_leaks=1"})
    assert done.returncode == 0
    assert LEAKS in done.stderr


def test_a_program_asks_to_be_traced(tmp_path: Path) -> None:
    program = built(tmp_path, "gcc", TRACED)
    if "traceme: done" not in run([program]).stderr:
        not_here("PTRACE_TRACEME is refused")
    for mode in (["-e", "fprintf"], ["-c"]):
        done = run([*TRACE, *mode, "-o", os.devnull, "--", program])
        assert "traceme: done" in done.stderr
        assert ("its signals are not shown" in done.stderr) == (mode != ["-c"])


def test_a_program_that_cannot_trace_below_f_is_named_at_once(tmp_path: Path) -> None:
    program = built(tmp_path, "gcc", TRACED)
    words = [*TRACE, "-f", "-c", "-o", os.devnull, "--", "sh", "-c", f"{program}; {program}"]
    said = run(words).stderr
    assert said.count("because -f does") == 1
    assert said.index(f"{program}: it cannot trace what it starts") < said.index("traceme: refused")
    assert "because -f does" not in run([*words[:4], "-q", *words[4:]]).stderr


def test_strace_works_where_nothing_is_followed(tmp_path: Path) -> None:
    strace = need("strace")
    log = tmp_path / "log"
    words = [strace, "-f", "-o", str(log), "-e", "trace=execve", "/bin/true"]
    done = run([*TRACE, "-e", "fork", "-o", os.devnull, "--", *words])
    assert done.returncode == 0
    assert 'execve("/bin/true"' in log.read_text()
