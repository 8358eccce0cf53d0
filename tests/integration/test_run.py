# SPDX-License-Identifier: Apache-2.0
"""`soscope patch -- COMMAND`: functions of one's own are in place before main, and no more."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes.patching import instead, soscope, target
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN, Cell
from tests.support.time.patience import limit

CELLS = [
    PLAIN,
    *(PLAIN._replace(binding=binding) for binding in ("now", "no-plt", "ibt")),
    *(PLAIN._replace(linker=linker) for linker in ("gold", "lld", "mold")),
    PLAIN._replace(pie="nopie"),
]
COUNT = r"""
#include <stdio.h>
#include <unistd.h>
char *(*getenv_original)(const char *);
static char *const *environ_at_start;
char *mine(const char *name)
{
	return name[0] == 'S' && name[1] == 'W' ? "swapped" : getenv_original(name);
}
"""
ASK = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern char **environ;
static const char *before;
__attribute__((constructor)) static void early(void) { before = getenv("SWAP"); }
int main(int argc, char **argv)
{
	int count = 0;
	while (environ[count])
		count++;
	printf("%s %s %d\n", before ? before : "-", getenv("SWAP") ? getenv("SWAP") : "-", count);
	fflush(stdout);
	if (argc > 1)
		execv(argv[1], argv + 1);
	return 4;
}
"""


@pytest.fixture(scope="module")
def made() -> Path:
    """Make a library that answers getenv("SWAP"), and a program that asks."""
    return build.made(
        {"mine.c": COUNT, "ask.c": ASK},
        "gcc -shared -fPIC -o mine.so mine.c",
        "gcc -o ask ask.c",
        "gcc -static -o asks ask.c",
    )


@pytest.mark.every(4)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_every_caller_reaches_it(cell: Cell) -> None:
    command = ["patch", "--replace", instead(), "--", *target(cell=cell)]
    done = soscope(*command, says="ask\nload\nask\nfork\nend\n")
    assert done.stdout.splitlines() == [
        "ready",
        "1002 1002 0",
        "loaded",
        "1002 1002 1002",
        "loaded",
        "1002 1002 1002",
        "wrong 0",
    ], done.stderr
    assert (done.returncode, done.stderr) == (5, "")


def test_it_is_there_at_main_and_the_environment_is_the_commands_own(made: Path) -> None:
    plain = subprocess.run(
        [made / "ask"], capture_output=True, text=True, check=False, timeout=limit()
    )
    done = soscope("patch", "--replace", f"getenv={made}/mine.so:mine", "--", made / "ask")
    count = int(plain.stdout.split()[2])
    assert done.stdout.split()[1] == "swapped"
    assert abs(int(done.stdout.split()[2]) - count) <= 1  # PYTHONPATH of the tests
    assert (done.returncode, done.stderr) == (4, "")


def test_a_profiler_of_ones_own_is_called_where_the_compiler_calls_one() -> None:
    """Each call of the library's functions enters and leaves once: the profiler counts both."""
    own = """
        #include <stdio.h>
        static unsigned long entered, left;
        void enter(void *function, void *site) { entered += function && site; }
        void leave(void *function, void *site) { left += function && site; }
        __attribute__((destructor)) static void tell(void)
        { fprintf(stderr, "%lu entered, %lu left\\n", entered, left); }
    """
    inner = "__attribute__((noinline)) static int in(int n) { return n ? in(n - 1) + 1 : 0; }"
    folder = build.made(
        {
            "own.c": own,
            "library.c": f"{inner} int run(int n) {{ return in(n); }}",
            "program.c": "int run(int n); int main(void) { return run(40) + run(1) - 34; }",
        },
        "gcc -shared -fPIC -o own.so own.c",
        "gcc -O1 -fno-optimize-sibling-calls -finstrument-functions -shared -fPIC"
        " -o libcyg.so library.c",
        "gcc -o program program.c libcyg.so -Wl,-rpath,$ORIGIN",
    )
    hook = "__cyg_profile_func_"
    words = ["--replace", f"{hook}enter={folder}/own.so:enter"]
    words += ["--replace", f"{hook}exit={folder}/own.so:leave"]
    done = soscope("patch", *words, "--", folder / "program")
    calls = (1 + 41) + (1 + 2)
    assert (done.returncode, done.stderr) == (7, f"{calls} entered, {calls} left\n")


@pytest.mark.parametrize("follow", [False, True])
def test_programs_that_it_executes(made: Path, follow: bool) -> None:
    options = ["-f"] if follow else []
    words = [made / "ask", made / "ask"]
    options += ["--replace", f"getenv={made}/mine.so:mine"]
    done = soscope("patch", "-q", *options, "--", *words)
    first, second = (line.split()[1] for line in done.stdout.splitlines())
    assert (first, second) == ("swapped", "swapped")
    assert done.returncode == 4


def test_a_static_program_runs_as_it_is_and_that_is_said(made: Path) -> None:
    done = soscope("patch", "--replace", f"getenv={made}/mine.so:mine", "--", made / "asks")
    assert done.stdout.split()[1] == "-"
    assert done.returncode == 4
    assert "nothing was replaced: it is statically linked" in done.stderr


def test_signals_and_statuses_are_the_commands() -> None:
    sh = need("sh")
    done = soscope("patch", "--replace", instead(symbol="getenv"), "--", sh, "-c", "kill -TERM $$")
    assert done.returncode in (125, -signal.SIGTERM)
    done = soscope("patch", "--replace", instead(), "--", "/nonexistent")
    assert done.returncode == 127


def test_slots_whose_address_is_taken_are_told(made: Path, tmp_path: Path) -> None:
    (tmp_path / "taken.c").write_text(
        """
        #include <stdlib.h>
        static char *(*volatile stored)(const char *);
        int main(void)
        {
            stored = getenv;
            return stored("SWAP") || getenv("SWAP");
        }
        """
    )
    build.made_in(tmp_path, "gcc", "-o", "taken", "taken.c")
    replace = ["patch", "--replace", f"getenv={made}/mine.so:mine"]
    done = soscope(*replace, "--", tmp_path / "taken")
    assert done.returncode == 0
    told = "getenv: 1 slot left in the images of "
    assert f"{told}{tmp_path}/taken: the function's address is taken there" in done.stderr
    assert soscope(*replace, "-q", "--", tmp_path / "taken").stderr == ""


def test_a_target_that_dies_in_the_replacement_dies_of_its_signal() -> None:
    command = ["patch", "--replace", instead("instead_dies"), "--", *target()]
    done = soscope(*command, says="ask\n")
    assert done.returncode == -signal.SIGABRT
    assert "died of SIGABRT inside a replacement: libinstead.so!instead_dies+0x" in done.stderr


def test_with_f_whatever_thread_dies_in_a_replacement_is_told(tmp_path: Path) -> None:
    (tmp_path / "dies.c").write_text("unsigned dies(void) { __builtin_trap(); }")
    (tmp_path / "calls.c").write_text(
        """
        #include <pthread.h>
        #include <unistd.h>
        static void *thread(void *nothing) { return getuid() ? nothing : NULL; }
        int main(void)
        {
            pthread_t id;

            pthread_create(&id, NULL, thread, NULL);
            pthread_join(id, NULL);
            return 0;
        }
        """
    )
    for words in (["-shared", "-fPIC", "-o", "dies.so", "dies.c"], ["-o", "calls", "calls.c"]):
        build.made_in(tmp_path, "gcc", "-pthread", *words)
    done = soscope(
        "patch", "-f", "--replace", f"getuid={tmp_path}/dies.so:dies", "--", tmp_path / "calls"
    )
    assert done.returncode == -signal.SIGILL
    assert "died of SIGILL inside a replacement: dies.so!dies+0x" in done.stderr


def test_what_cannot_be_put_in_place_is_said_and_the_command_does_not_run(tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text("int nowhere(void); int bad(int x) { return x + nowhere(); }\n")
    bad = tmp_path / "libbad.so"
    build.made_in(tmp_path, "gcc", "-shared", "-fPIC", "-o", bad, source)
    command = target()
    for text, said in (
        (f"patchee={bad}:bad", "undefined symbol: nowhere"),
        (instead(symbol="nobody"), "symbol 'nobody' not found in any image"),
    ):
        done = soscope("patch", "--replace", text, "--", *command)
        assert (done.returncode, done.stdout) == (125, "")
        assert said in done.stderr
        assert f"cannot run {os.path.realpath(command[0])}" in done.stderr
    done = soscope("patch", "--replace", instead(symbol="qsort"), "--", "true")
    assert done.returncode in (0, 125)


def test_wrong_words() -> None:
    assert "--replace or --undo is missing" in soscope("patch", "true").stderr
    assert "neither a command to run nor -p PID" in soscope("patch", "--replace", instead()).stderr
    assert soscope("patch", "--replace", "x", "--", "true").returncode == 125
