# SPDX-License-Identifier: Apache-2.0
"""A function that headers call by another name: who names it sees and fails all its calls.

The programs count what their source calls; the compiler decides by which name it calls.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.processes.run import run, soscope
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets.build import made

FORTIFIED = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int flags = argc > 5 ? O_WRONLY : O_RDONLY, opened = 0;
	char to[64];

	opened += open("/etc/hosts", O_RDONLY) >= 0;
	opened += open("/etc/passwd", flags) >= 0;
	memset(to, 'x', argc * 8);
	memcpy(to, argv[0], argc * 2);
	snprintf(to, argc * 8, "%ld", strtol(argv[1], NULL, 10));
	sscanf(argv[1], "%d", &flags);
	printf("%d %s\n", opened, to);
	fflush(stdout);
	return 0;
}
"""
CALLS = {"open": 2, "memset": 1, "memcpy": 1, "snprintf": 1, "strtol": 1, "sscanf": 1, "printf": 1}
NAME = re.compile(r"^fort->(\w+)\(", re.MULTILINE)


@pytest.fixture(scope="module")
def fort() -> Path:
    flags = "-O2 -D_FORTIFY_SOURCE=2 -fno-builtin-snprintf"
    return made({"fort.c": FORTIFIED}, f"gcc {flags} fort.c -o fort") / "fort"


def _names(words: list[str], fort: Path) -> tuple[list[str], str]:
    done = run([*SOSCOPE, *words, "--", str(fort), "7"])
    assert (done.returncode, done.stdout) == (0, "2 7\n"), done.stderr
    return NAME.findall(done.stderr), done.stderr


def test_a_name_shows_its_twins_under_their_own_names(fort: Path) -> None:
    names, said = _names(["-e", ",".join(CALLS)], fort)
    assert len(names) == sum(CALLS.values()), said
    assert {"open", "__open_2", "__printf_chk"} <= set(names)
    assert _names(["-e", "open*"], fort)[0] == ["open", "__open_2"]
    assert _names(["-e", "__open_2"], fort)[0] == ["__open_2"]
    assert _names(["-e", "[o]pen"], fort)[0] == ["open"]
    assert _names(["-e", "open-__open_2"], fort)[0] == ["open"]


def test_a_recording_is_asked_in_the_same_way(fort: Path, tmp_path: Path) -> None:
    record = tmp_path / "all.sosr"
    run([*SOSCOPE, "--record", str(record), "--", str(fort), "7"])
    report = soscope("report", "-e", "open", str(record))
    assert NAME.findall(report.stdout) == ["open", "__open_2"], report


def test_an_injected_failure_is_one_of_all_its_names(fort: Path) -> None:
    """The program itself says how many files it could open."""
    for rule, opened in (("open:error=EMFILE", 0), ("__open_2:error=EMFILE", 1)):
        done = soscope("inject", "-e", f"inject={rule}", "--", str(fort), "7")
        assert (done.returncode, done.stdout) == (0, f"{opened} 7\n"), done.stderr


def test_a_map_shows_the_slots_of_all_its_names(fort: Path) -> None:
    done = soscope("map", "--json", "-e", "open", str(fort))
    slots = json.loads(done.stdout)["images"][0]["slots"]
    assert {slot["symbol"] for slot in slots} == {"open", "__open_2"}
