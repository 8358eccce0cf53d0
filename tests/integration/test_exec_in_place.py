# SPDX-License-Identifier: Apache-2.0
"""A command that executes another program in its place: env, nohup, nice, a shell, a shim.

It is one process, so its calls are seen without `-f`, which is for children.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import attached, tracing
from tests.support.processes.launching import launched
from tests.support.processes.others import NOBODY, as_nobody
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE, Case
from tests.support.targets import build
from tests.support.time.patience import limit, until

CALLS = Case("calls", ())
AMONG_THREADS = """
import os, sys, threading
stop = threading.Event()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=stop.wait, daemon=True).start()
os.execv(sys.argv[2], sys.argv[2:])
"""
BY_SEARCH = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
LAUNCHERS = {
    "env": ["env", "A=1"],
    "nohup": ["nohup"],
    "nice": ["nice", "-n", "1"],
    "sh": ["sh", "-c", 'exec "$@"', "-"],
    "bash": ["bash", "-c", 'true & wait; exec "$@"', "-"],
    "setarch": ["setarch", "-R"],
    "all": ["taskset", "-c", "0", "env", "nice", "sh", "-c", 'exec "$@"', "-", "env"],
    "search": [sys.executable, "-c", BY_SEARCH],
    "2 threads": [sys.executable, "-c", AMONG_THREADS, "2"],
    "100 threads": [sys.executable, "-c", AMONG_THREADS, "100"],
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("mode", ["count", "summary", "record"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_program_that_it_becomes_is_seen(launcher: str, mode: str, tmp_path: Path) -> None:
    command = [*LAUNCHERS[launcher], *map(str, tracing.program(CALLS))]
    wanted = tracing.plain(command, tmp_path)
    assert wanted.outcome.status == 0
    got = tracing.traced(command, tmp_path, mode=mode, select=",".join(wanted.truth.names))
    assert not tracing.faults(wanted, got, mode=mode, follow=False)


@pytest.mark.parametrize("words", [["trace", "-c"], ["trace"], ["called", "-q"]], ids=" ".join)
def test_it_is_complete(words: list[str]) -> None:
    done = run([sys.executable, "-m", "soscope", *words, "--", "env", *tracing.program(CALLS)])
    assert done.returncode == 0
    assert "ran untraced" not in done.stderr
    assert "not complete" not in done.stderr


def test_an_exec_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Soscope traces the process from then on, so that its signals pass through soscope."""
    script = (
        "shopt -s execfail; exec /nonexistent 2>/dev/null; trap 'echo heard' USR1; "
        "kill -USR1 $$; exec /nonexistent 2>/dev/null; echo lives; kill -KILL $$"
    )
    done = run([*SOSCOPE, "-q", "-c", "-o", tmp_path / "out", "--", "bash", "-c", script])
    assert done.stdout == "heard\nlives\n"
    assert done.returncode == -signal.SIGKILL


def test_a_killed_soscope_does_not_keep_it(tmp_path: Path) -> None:
    """The program waits to be traced: not for long, if nobody is there to do that."""
    ready, go, ran = (tmp_path / name for name in ("ready", "go", "ran"))
    os.mkfifo(go)
    script = f"echo $$ > {ready}; read line < {go}; exec touch {shlex.quote(str(ran))}"
    process = subprocess.Popen(
        [*SOSCOPE, "-q", "--record", tmp_path / "r", "--", "bash", "-c", script]
    )
    until(lambda: ready.exists() and ready.read_text(), "the shell runs", running=process)
    process.kill()
    process.wait(timeout=limit())
    target = int(ready.read_text())
    go.write_text("go\n")
    until(lambda: not Path(f"/proc/{target}").exists(), "the program that it has executed ends")
    assert ran.exists()


def test_children_of_vfork_are_not_taken_for_it(tmp_path: Path) -> None:
    """They have its memory, and may tell soscope nothing in its name."""
    source = tmp_path / "vforks.c"
    source.write_text(
        "#include <sys/wait.h>\n#include <unistd.h>\n"
        "int main(int argc, char **argv) {\n"
        "  for (int i = 0; i < 20; i++) {\n"
        '    if (!vfork()) { execl("/bin/true", "true", (char *)0); _exit(1); }\n'
        "    wait(0);\n  }\n  execv(argv[1], argv + 1);\n  return 9;\n}\n"
    )
    vforks = build.compiled("vforks", ["gcc", "-w"], [source])
    command = [str(vforks), *map(str, tracing.program(CALLS))]
    wanted = tracing.plain(command, tmp_path)
    for mode in ("count", "record"):
        got = tracing.traced(command, tmp_path, mode=mode, select=",".join(wanted.truth.names))
        assert not tracing.faults(wanted, got, mode=mode, follow=False)


@pytest.mark.parametrize("how", [[], ["--aggregate"], ["--mode", "count"]], ids=" ".join)
def test_memory_of_the_program_before_is_gone(how: list[str], tmp_path: Path) -> None:
    source = tmp_path / "keeps.c"
    source.write_text(
        "#include <stdlib.h>\n#include <sys/mman.h>\n#include <unistd.h>\n"
        "int main(int argc, char **argv) {\n"
        "  for (int i = atoi(argv[1]); i; i--) malloc(100);\n"
        "  mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
        "  if (argc > 2) execv(*argv, (char *[]){*argv, argv[2], 0});\n"
        "  return 0;\n}\n"
    )
    keeps = build.compiled("keeps", ["gcc", "-w"], [source])

    def totals(*counts: str) -> dict[str, dict[str, int]]:
        recording = tmp_path / "recording"
        words = [sys.executable, "-m", "soscope", "mem"]
        run([*words, "run", "-q", "--blocks", *how, "-o", recording, "--", keeps, *counts])
        totals: dict[str, dict[str, int]] = json.loads(
            run([*words, "report", "--json", recording]).stdout
        )["totals"]
        return totals

    one, two = totals("20"), totals("300", "20")
    assert (one["native"]["live"], one["mapped"]["live"]) == (20, 1)
    for kind in ("native", "mapped"):
        for what in ("live", "live_bytes"):
            assert two[kind][what] == one[kind][what]
    assert two["native"]["allocations"] == 320


@pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")
@pytest.mark.parametrize("how", ["path", "name", "other PATH", "script"])
def test_a_setuid_program_keeps_its_rights(how: str, public_path: Path) -> None:
    """A program that a user without rights traces would be executed without its own."""
    program, script = public_path / "setuid", public_path / "script"
    shutil.copy(launched(), program)
    program.chmod(0o4755)
    script.write_text(f"#!{program} state\n")
    script.chmod(0o755)
    command = {
        "path": ["sh", "-c", f"exec {program} state"],
        "name": ["env", "setuid", "state"],
        "other PATH": ["env", f"PATH={public_path}", "setuid", "state"],
        "script": ["nice", str(script)],
    }[how]
    path = "" if how == "other PATH" else f":{public_path}"
    environ = {**os.environ, "PATH": f"{os.environ['PATH']}{path}"}
    words = [*as_nobody(public_path), "trace", "-c", "-o", "/dev/null", "--"]
    done = run([*words, *command], env=environ, cwd=public_path)
    assert f"ids {NOBODY} 0 {NOBODY} {NOBODY}\n" in done.stdout, done.stderr
    assert "TracerPid:\t0\n" in done.stdout
    assert "not complete" in done.stderr


BEHIND = r"""
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
extern char **environ;
static long raw(const char *path, char **words)
{
    long result;
    register char **to __asm__("rdx") = environ;
    __asm__ volatile("syscall"
             : "=a"(result)
             : "a"(59), "D"(path), "S"(words), "r"(to)
             : "rcx", "r11", "memory");
    return result;
}
int main(int argc, char **argv)
{
    char *words[] = {argv[2], 0};
    if (argc > 3) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    if (strstr(argv[1], "named"))
        prctl(PR_SET_NAME, "renamed");
    if (strstr(argv[1], "raw"))
        raw(argv[2], words);
    execv("/nonexistent/program", words);
    if (strstr(argv[1], "exec"))
        execv(argv[2], words);
    return 7;
}
"""
QUICK = "int main(void) { return 5; }"


def _behind() -> tuple[Path, Path]:
    folder = build.made(
        {"behind.c": BEHIND, "quick.c": QUICK}, "gcc behind.c -o behind", "gcc quick.c -o quick"
    )
    return folder / "behind", folder / "quick"


@pytest.mark.parametrize("mode", ["-c", "--count-only"])
def test_what_a_system_instruction_executes_is_told(mode: str) -> None:
    behind, quick = _behind()
    done = run([*SOSCOPE, mode, "--", behind, "raw", quick])
    assert done.returncode == 5
    assert "quick ran untraced" in done.stderr
    assert "complete: " not in done.stderr


@pytest.mark.parametrize("how", ["", "named"])
def test_a_program_that_ends_as_itself_has_executed_none(how: str) -> None:
    behind, quick = _behind()
    done = run([*SOSCOPE, "-c", "--", behind, how, quick])
    assert done.returncode == 7
    assert "untraced" not in done.stderr
    assert "complete: " in done.stderr


@pytest.mark.parametrize("mode", ["-c", "--count-only"])
def test_a_process_that_ran_already_executes_a_program_that_ends_at_once(mode: str) -> None:
    behind, quick = _behind()
    with attached.running([behind, "exec", quick, "wait"]) as process:
        tracer = attached.begin(process.pid, mode)
        assert attached.finish(process)[0] == 5
        _, err = tracer.communicate(timeout=limit())
    assert f"process {process.pid} has executed {quick}, which is not traced" in err
    assert "; not complete" in err


@pytest.mark.parametrize("how", ["", "named"])
def test_a_process_that_ran_already_executes_nothing(how: str) -> None:
    behind, quick = _behind()
    with attached.running([behind, how, quick, "wait"]) as process:
        tracer = attached.begin(process.pid, "-c")
        assert attached.finish(process)[0] == 7
        _, err = tracer.communicate(timeout=limit())
    assert "has executed" not in err
    assert "complete: " in err
