# SPDX-License-Identifier: Apache-2.0
"""gdb, attached to a program under soscope, sees the whole stack through hooked calls."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from soscope.entry.agent.install import agent_path
from tests.support.machines.tools import need, not_here
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.time.patience import limit, until

# As on a stack under each other; the innermost waits, where gdb finds it.
SOURCE = """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int fcall(int (*function)(int), int x);
static volatile int go;
int innermost(int x)
{
	while (!go)
		usleep(1000);
	return x;
}
int middle(int x)
{
	return fcall(innermost, x + 1) + 1;
}
static int compare(const void *a, const void *b)
{
	static int once;
	if (!once++)
		middle(1);
	return *(const int *)a - *(const int *)b;
}
int main(void)
{
	int numbers[] = {3, 1, 2};
	qsort(numbers, 3, sizeof(int), compare);
	printf("%d %d %d\\n", numbers[0], numbers[1], numbers[2]);
	return 0;
}
"""
# qsort may have other names inside
WANTED = ["innermost", "fcall", "middle", "compare", "main"]


def built(folder: Path, flags: str) -> Path:
    """Build the program beside libleaf.so."""
    leaf = build.library("leaf")
    source, program = folder / "program.c", folder / "program"
    source.write_text(SOURCE)
    words = ["gcc", "-g", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", *flags.split()]
    build.made_in(folder, *words, source, leaf, f"-Wl,-rpath,{leaf.parent}", "-o", program)
    return program


def target_of(soscope: int, program: Path) -> int:
    """Wait for the traced program, a child of soscope, to be in `innermost`."""

    def sleeping() -> int:
        with contextlib.suppress(OSError):  # one of them has just ended
            for word in Path(f"/proc/{soscope}/task/{soscope}/children").read_text().split():
                same = Path(f"/proc/{word}/exe").samefile(program)
                if same and "nanosleep" in Path(f"/proc/{word}/wchan").read_text():
                    return int(word)
        return 0

    return until(sleeping, "the program sleeps in `innermost`")


def agent_base(pid: int) -> int:
    """Return where the agent's code lies: the first mapping of its file."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    found = re.search(
        r"^([0-9a-f]+)-[0-9a-f]+ r-xp 00000000 .*(?:memfd:|soscope)", maps, re.MULTILINE
    )
    assert found is not None, maps
    return int(found[1], 16)


@pytest.mark.every(2)
@pytest.mark.parametrize("flags", ["-Wl,-z,lazy", "-Wl,-z,now", "-fomit-frame-pointer -fno-plt"])
def test_a_backtrace_reaches_main(flags: str, tmp_path: Path) -> None:
    program = built(tmp_path, flags)
    # -c lets go of the program; a trace stays its tracer, and there is only one
    words = [sys.executable, "-m", "soscope", "trace", "-q", "-c", "-e", "fcall,qsort,usleep"]
    words += ["-o", str(tmp_path / "summary"), "--", str(program)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as soscope:
        try:
            pid = target_of(soscope.pid, program)
            symbols = f"add-symbol-file {agent_path()} -o {agent_base(pid):#x}"
            script = [symbols, "bt", "set var go = 1", "detach"]
            options = [word for line in script for word in ("-ex", line)]
            batch = [need("gdb"), "-q", "-nx", "-batch", "-p", str(pid), *options]
            said = run(batch, timeout=limit(), env={"DEBUGINFOD_URLS": ""})
            if "Operation not permitted" in said.stderr:
                not_here("this process may not be attached to")
            out, err = soscope.communicate(timeout=limit())
        finally:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(soscope.pid, signal.SIGKILL)
    frames = re.findall(r"^#\d+ .*?(?:in )?(\w+) \(", said.stdout, re.MULTILINE)
    assert [name for name in frames if name in WANTED] == WANTED, said.stdout + said.stderr
    # return trampolines of usleep, fcall and qsort: gdb has its words for such frames
    assert said.stdout.count("<signal handler called>") == 3
    assert "corrupt" not in said.stdout
    # it goes on as if nothing had been
    assert (soscope.returncode, out, err) == (0, "1 2 3\n", "")
