# SPDX-License-Identifier: Apache-2.0
"""-y says what stdin, stdout and stderr are of, and what functions are called that are passed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes.run import run
from tests.support.targets.build import made_in
from tests.support.time.patience import limit

PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static void handler(int number) { (void)number; }
int compare(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }
int main(void)
{
	setvbuf(stderr, NULL, _IONBF, 0);
	fputc('e', stderr);
	fputc('o', stdout);
	fgetc(stdin);
	FILE *other = fopen("/dev/null", "w");
	fputc('n', other);
	char text[] = "cab";
	qsort(text, 3, 1, compare);
	signal(SIGUSR1, handler);
	signal(SIGUSR1, SIG_IGN);
	fprintf(stdout, "%p %p %p %p", (void *)stderr, (void *)stdout, (void *)stdin, (void *)other);
	return 0;
}
"""


def test_standard_streams(tmp_path: Path) -> None:
    source, program, seen = tmp_path / "main.c", tmp_path / "main", tmp_path / "seen"
    source.write_text(PROGRAM)
    made_in(tmp_path, "gcc", "-fno-builtin", "-o", program, source)
    recording = tmp_path / "rec"
    words = [sys.executable, "-m", "soscope"]
    trace = ["trace", "-q", "-y", "-o", str(seen), "--record", str(recording)]
    chosen = ["-e", "fputc+fgetc+fopen+qsort+signal", "--from", "MAIN", "--", str(program)]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as errors:
        command = [*words, *trace, *chosen]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            timeout=limit(),
            check=False,
        )
    assert done.returncode == 0
    stderr, stdout, stdin, other = (tmp_path / "out").read_text()[1:].split()
    lines = [
        line.partition(" = ")[0].rstrip().removeprefix("main->")
        for line in seen.read_text().splitlines()
    ]
    assert lines[:3] == [
        f"fputc('e', {stderr}<{os.path.realpath(tmp_path)}/err>)",
        f"fputc('o', {stdout}<{os.path.realpath(tmp_path)}/out>)",
        f"fgetc({stdin}</dev/null>)",
    ]
    assert lines[4] == f"fputc('n', {other}</dev/null>)"
    assert lines[5].endswith("<main!compare>)")
    assert lines[6].startswith("signal(SIGUSR1, 0x")
    assert lines[6].endswith("<main!handler>)")
    assert lines[7] == "signal(SIGUSR1, SIG_IGN)"
    # nobody has recorded what they were of
    report = run([*words, "report", "-q", "-y", "-e", "fputc+fgetc", str(recording)]).stdout
    told = [
        line.partition(" = ")[0].rstrip().removeprefix("main->") for line in report.splitlines()
    ]
    assert told[:3] == [
        f"fputc('e', {stderr}<stderr>)",
        f"fputc('o', {stdout}<stdout>)",
        f"fgetc({stdin}<stdin>)",
    ]
