# SPDX-License-Identifier: Apache-2.0
"""ltrace's filters choose the same calls here, on a program that ltrace can trace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import run, soscope
from tests.support.targets.build import made_in
from tests.support.time.patience import limit

INNER = """
#include <stdlib.h>
#include <string.h>
int inner(const char *s)
{
	char *copy = malloc(strlen(s) + 1);
	strcpy(copy, s);
	int n = atoi(copy);
	free(copy);
	return n;
}
"""
MAIN = """
#include <stdlib.h>
#include <string.h>
int inner(const char *s);
int main(void)
{
	char *room = calloc(3, 4);
	int n = inner("12") + inner("30") + abs(-1) + (int)strlen("four");
	room = realloc(room, 100);
	free(room);
	return n - 47;
}
"""
# what the manual of ltrace gives as examples, and its rules one by one
FILTERS = [
    ["-e", "malloc+free-@libc.so*"],
    ["-e", "malloc"],
    ["-e", "malloc+free@MAIN"],
    ["-e", "malloc@libinner.so"],
    ["-e", "@libinner.so"],
    ["-e", "@libinner*-free"],
    ["-e", "@MAIN"],
    ["-e", "@MAIN-free"],
    ["-e", "*alloc-@libc.so*-@ld-*"],
    ["-e", "mal[kl]oc@MAIN+?ree@libinner.so"],
    ["-e", r"/malloc\|free/@libinner.so"],
    ["-e", "strlen@MAIN", "-e", "atoi"],
    ["-e", "no_such_function"],
    ["-l", "libinner.so"],
    [],
]
OURS = {"main", "libinner.so"}
# called through slots without a stub, where ltrace has no breakpoint
STUBLESS = {"__libc_start_main", "__cxa_finalize"}
LINE = re.compile(r"^(?:<\.\.\. (\w+) resumed>|(?:([\w.-]+)->)?(\w+)\()")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("ltrace")
    place = tmp_path_factory.mktemp("ltrace")
    (place / "inner.c").write_text(INNER)
    (place / "main.c").write_text(MAIN)
    lazy = ["gcc", "-O0", "-fno-builtin", "-fcf-protection=none", "-Wl,-z,lazy"]
    words = ["-shared", "-fPIC", "-Wl,-soname,libinner.so", "inner.c", "-o", "libinner.so"]
    made_in(place, *lazy, *words)
    link = ["-no-pie", "main.c", "libinner.so", "-Wl,-rpath,$ORIGIN", "-o", "main"]
    made_in(place, *lazy, *link)
    return place / "main"


def calls(text: str) -> list[tuple[str, str]]:
    """Return caller and function of each call that begins, of the program and its library."""
    found = []
    for line in text.splitlines():
        match = LINE.match(line)
        if match is not None and match.group(3):
            found.append((match.group(2) or "", match.group(3)))
    return [call for call in found if call[0] in {"", *OURS} and call[1] not in STUBLESS]


@pytest.mark.every(3)
@pytest.mark.parametrize("words", FILTERS, ids=" ".join)
def test_the_same_calls_are_chosen(words: list[str], program: Path, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    run(["ltrace", *words, "-o", theirs, program], timeout=limit(30))
    ended = soscope("trace", "-q", *words, "-o", ours, "--", program)
    assert ended.returncode == 0
    assert calls(ours.read_text()) == calls(theirs.read_text())
