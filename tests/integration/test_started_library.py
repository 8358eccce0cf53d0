# SPDX-License-Identifier: Apache-2.0
"""A program that only starts a library of its name: the trace of it says how to see the library.

What the program and the library call is the source of both.
"""

from __future__ import annotations

import shutil

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets.build import made

LIBRARY = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int thin_main(const char *word)
{
	char *copy = strdup(word), *all = malloc(64);
	int at = atoi(copy) + abs((int)strtol(word, NULL, 0)) + (int)strlen(word);

	at += strcmp(word, copy) + (strchr(word, 'z') != NULL) + (getpid() < 0);
	free(copy);
	free(all);
	return at == 9 ? 0 : 1;
}
"""
PROGRAM = 'int thin_main(const char *); int main(void) { return thin_main("4"); }\n'
HINT = "only starts"


def test_a_thin_program_names_the_library_and_its_calls_are_shown() -> None:
    folder = made(
        {"thin.c": LIBRARY, "main.c": PROGRAM},
        "gcc -O1 -fno-builtin -shared -fPIC thin.c -o libthin-2.0.so",
        "gcc main.c -o thin2.0 -L. -l:libthin-2.0.so -Wl,-rpath,'$ORIGIN'",
    )
    done = run([*SOSCOPE, "--", str(folder / "thin2.0")])
    assert done.returncode == 0, done.stderr
    assert "soscope: thin2.0 only starts libthin-2.0.so: --from all shows its calls" in done.stderr
    assert "strchr(" not in done.stderr
    told = run([*SOSCOPE, "--from", "all", "--", str(folder / "thin2.0")])
    assert "libthin-2.0.so->strchr(" in told.stderr
    assert HINT not in told.stderr


@pytest.mark.skipif(shutil.which("ruby3.1") is None, reason="no ruby of Debian")
def test_a_thin_interpreter_names_its_library() -> None:
    done = run([*SOSCOPE, "--", "ruby", "--disable-gems", "-e", "1"])
    assert "soscope: ruby3.1 only starts libruby-3.1.so" in done.stderr


@pytest.mark.parametrize("words", [["ls", "/"], ["git", "--version"], ["sort", "/etc/passwd"]])
def test_a_program_that_calls_for_itself_gets_no_hint(words: list[str]) -> None:
    done = run([*SOSCOPE, "-c", "--", *words])
    assert done.returncode == 0, done.stderr
    assert HINT not in done.stderr
