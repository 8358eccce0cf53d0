# SPDX-License-Identifier: Apache-2.0
"""Strings that end with their page: what is shown of them, and that nothing behind is touched."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

# What page_ends.c calls with a string that no NUL ends, and what soscope shows of it.
SHOWN = """\
strchr("key=val"..., '=')
strcmp("abd"..., "abc") = 1
strncmp("GET /"..., "GET ", 4) = 0
strnlen("1234567"..., 7) = 7
strcspn("a,b"..., ",") = 1
printf("%.5s\\n", "limit") = 6
printf("%.0s%.*s\\n", "", 3, "out") = 4
strchr("crosses", 'o') = "osses"
strlen("crosses") = 7
getenv("SOSC_NOT_THERE") = nil
"""


def test_strings_without_an_end_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    program = build.program("page_ends")
    plain = run([program])
    output = tmp_path / "output"
    chosen = "str*,printf,getenv"
    traced = run([*SOSCOPE, "-q", "-o", output, "-e", chosen, "--", program])
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout), traced.stderr
    calls = [" ".join(line.partition("->")[2].split()) for line in output.read_text().splitlines()]
    for shown in SHOWN.splitlines():
        assert any(call.startswith(shown) for call in calls), shown
