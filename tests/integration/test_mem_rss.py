# SPDX-License-Identifier: Apache-2.0
"""`totals.rss`: six parts that add up, beside what programs and the kernel say."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from soscope.instruments.mem.run import MemSettings, run_mem
from tests.support.machines.pythons import few_pythons
from tests.support.machines.tools import need
from tests.support.processes.run import besides_cost, kill
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.mem import REPORT
from tests.support.targets.accounts import built
from tests.support.targets.survivors import report, soscope

MIB = 1 << 20
PARTS = ["objects", "native", "slack", "files", "stacks", "other"]


def rss(document: dict[str, Any]) -> dict[str, int]:
    assert not wrong_members(document, REPORT)
    parts: dict[str, int] = document["totals"]["rss"]
    assert list(parts) == ["total", *PARTS]
    return parts


def recorded(tmp_path: Path, *words: str | Path) -> tuple[dict[str, int], str]:
    """Record a command; return its parts, and what it has printed."""
    file = tmp_path / "run.sosr"
    done = soscope("mem", "run", "-o", file, *words)
    assert (done.returncode, besides_cost(done.stderr)) == (0, "")
    return rss(report(file)), done.stdout


NATIVE = """
static char *kept[30000];
static void say_rss(void)
{
    char line[200];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, "Rss:", 4))
            printf("%s", line);
    fclose(file);
}
int main(void)
{
    static char big[1000];
    for (int i = 0; i < 30000; i++)
        memset(kept[i] = malloc(1000), 1, 1000); /* 29 MiB; every other one goes again: 14.5 */
    for (int i = 0; i < 29998; i += 2)
        free(kept[i]);
    memset(malloc(20 << 20), 1, 20 << 20); /* mapped by malloc */
    memset(mmap(NULL, 10 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 10 << 20);
    setvbuf(stdout, big, _IOFBF, sizeof big);
    say_rss();
    return 0;
}"""


def test_a_native_program_is_divided_at_its_end(tmp_path: Path) -> None:
    parts, said = recorded(tmp_path, "--blocks", "--", built("divided.c", NATIVE))
    (truth,) = re.findall(r"Rss: +(\d+) kB", said)
    assert abs(parts["total"] - int(truth) * 1024) < MIB
    assert parts["objects"] == 0
    assert abs(parts["native"] - 34.5 * MIB) < MIB
    assert abs(parts["slack"] - 14.5 * MIB) < MIB
    assert parts["other"] > 10 * MIB
    assert MIB / 2 < parts["files"] < 8 * MIB
    assert 0 < parts["stacks"] < MIB


# small objects lie in pools, others are blocks of malloc; 20 MiB are none of an object's
OBJECTS = """
import ctypes
small = [object() for _ in range(300_000)]
middle = [bytes(1000) for _ in range(20_000)]
large = bytearray(b"x" * 15_000_000)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
native = libc.malloc(20 << 20)
ctypes.memset(native, 1, 20 << 20)
free = [bytes(1000) for _ in range(20_000)]
pinned = bytes(1000)
del free
"""
_OBJECTS = 300_000 * (16 + 8) + 20_000 * (1033 + 8) + 15_000_000


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_objects_of_all_sizes_are_objects(python: str, tmp_path: Path) -> None:
    program = tmp_path / "objects.py"
    program.write_text(OBJECTS)
    parts, _ = recorded(tmp_path, "--", python, program)
    assert abs(parts["objects"] - _OBJECTS) < 4 * MIB
    assert abs(parts["native"] - 20 * MIB) < 3 * MIB
    assert 17 * MIB < parts["slack"] < 24 * MIB


def test_objects_are_objects_where_python_has_no_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    program = tmp_path / "objects.py"
    program.write_text(OBJECTS)
    parts, _ = recorded(tmp_path, "--", few_pythons()[0], program)
    assert abs(parts["objects"] - _OBJECTS) < 6 * MIB
    assert parts["native"] > 20 * MIB


def test_slots_of_ruby_are_objects(tmp_path: Path) -> None:
    words = "$kept = (0...200_000).map { Object.new }"
    parts, _ = recorded(tmp_path, "--", need("ruby"), "-e", words)
    assert 200_000 * 40 < parts["objects"] < 200_000 * 40 + 4 * MIB


def test_a_killed_process_is_divided_too(tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    words = "import os; kept = [bytes(1000) for _ in range(20_000)]; os.kill(os.getpid(), 9)"
    done = soscope("mem", "run", "-o", file, "--", few_pythons()[0], "-c", words)
    assert done.returncode == -9
    shown = soscope("mem", "report", "--json", file)
    assert rss(json.loads(shown.stdout))["objects"] > 19 * MIB


def test_processes_are_added_up(tmp_path: Path) -> None:
    program = built(
        "forks.c",
        """
        int main(void)
        {
            int size = 5 << 20;
            for (int i = 0; i < 2; i++)
                if (!fork()) {
                    memset(malloc(size), 1, size);
                    return 0;
                }
            while (wait(NULL) > 0)
                ;
            return 0;
        }""",
    )
    parts, _ = recorded(tmp_path, "--blocks", "-f", "--", program)
    assert 10 * MIB <= parts["native"] < 11 * MIB


def test_a_snapshot_is_divided() -> None:
    words = "kept = [bytes(1000) for _ in range(20_000)]; print(flush=True); input()"
    command = [few_pythons()[0], "-c", words]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        done = soscope("mem", "snapshot", "-p", str(process.pid), "--json")
        assert (done.returncode, done.stderr) == (0, "")
        parts = rss(json.loads(done.stdout))
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        (truth,) = re.findall(r"Rss: +(\d+) kB", rollup)
        assert abs(parts["total"] - int(truth) * 1024) < 2 * MIB
        assert 19 * MIB < parts["objects"] < 24 * MIB
        text = soscope("mem", "snapshot", "-p", str(process.pid)).stdout
        assert re.search(r"^RSS: [\d.]+ MiB = objects [\d.]+ MiB \+ native ", text, re.MULTILINE)
    finally:
        kill(process)


ENDING = """
import sys
class Last:
    def __del__(self, write=open, path=sys.argv[1]):
        write(path, "w").close()
last = Last()
"""


def test_the_target_waits_however_long_the_look_takes(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    seen = []

    def divide(pid: int, _: object) -> None:
        time.sleep(3.5)  # the agent's patience is 3 s
        seen.append((Path(f"/proc/{pid}").exists(), ended.exists()))

    command = [few_pythons()[0], "-c", ENDING, str(ended)]
    path = str(tmp_path / "run.sosr")
    outcome = run_mem(MemSettings(command, path, objects=True, divide=divide))
    assert outcome.status == 0
    assert seen == [(True, False)]
    assert ended.exists()
