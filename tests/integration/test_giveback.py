# SPDX-License-Identifier: Apache-2.0
"""What an attach leaves in a process: no more after many sessions than after a few."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from soscope.proc import maps
from tests.support.files import elffiles
from tests.support.machines.pythons import few_pythons
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.schemas.checked import DETACH, wrong_members
from tests.support.targets import build, survivors
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

PAGE = 4096
MOST = 4  # mappings of soscope's that may stay
WAYS = {
    "times": ["trace", "-c"],
    "count": ["trace", "--count-only"],
    "record": ["trace", "--record", "{}"],
    "blocks": ["mem", "attach", "--blocks", "-o", "{}"],
    "profile": ["prof", "attach", "-o", "{}"],
}

Size = tuple[int, int]  # bytes of addresses, mappings


def size_of(pid: int) -> Size:
    """Return how large a process is."""
    text = Path(f"/proc/{pid}/status").read_text()
    [size] = [line.split()[1] for line in text.splitlines() if line.startswith("VmSize:")]
    return int(size) << 10, len(maps.read(pid))


def resident(pid: int) -> int:
    """Return how many bytes of a process's memory belong to no file of its own."""
    text = Path(f"/proc/{pid}/status").read_text()
    lines = [line.split() for line in text.splitlines()]
    return sum(int(line[1]) << 10 for line in lines if line[0] in ("RssAnon:", "RssShmem:"))


def starts(pid: int) -> set[int]:
    """Return where the mappings begin that belong to nobody's file, or to soscope's."""
    return {
        each.start
        for each in maps.read(pid)
        if (not each.path or each.path.startswith("/memfd")) and not each.flags.startswith("---")
    }


def attach(pid: int, words: list[str], output: Path) -> None:
    """Look at a process for a moment."""
    words = [word.format(output) for word in words]
    command = [*attached.words(pid)[:4], *words, "--duration", "30ms", "-p", str(pid)]
    done = subprocess.run(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit(),
        check=False,
    )
    assert done.returncode == 0, done.stderr


def sizes(pid: int, way: str, folder: Path, counts: tuple[int, ...]) -> list[Size]:
    """Return the sizes of a process after so many sessions each."""
    found = []
    done = 0
    for count in counts:
        for _ in range(count - done):
            attach(pid, WAYS[way], folder / "output")
        done = count
        found.append(size_of(pid))
    return found


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_later_sessions_take_no_more(way: str, tmp_path: Path) -> None:
    counts = (8, 16) if way == "times" else (2, 4)
    with attached.running([build.program("attached"), "4"]) as process:
        until(has_run(process.pid), "threads have heaps")
        before, memory = starts(process.pid), resident(process.pid)
        [few, many] = sizes(process.pid, way, tmp_path, counts)
        assert many == few
        assert len(starts(process.pid) - before) <= MOST
        assert resident(process.pid) - memory <= 1 << 20
        assert attached.finish(process) == (7, "wrong 0\n", "")


@pytest.mark.soak
@pytest.mark.parametrize("threads", [2, 60])
@pytest.mark.parametrize("way", WAYS)
def test_fifty_sessions_take_no_more_than_eight(way: str, threads: int, tmp_path: Path) -> None:
    with attached.running([build.program("attached"), str(threads)]) as process:
        until(has_run(process.pid), "threads have heaps")
        before = starts(process.pid)
        [few, many] = sizes(process.pid, way, tmp_path, (8, 50))
        assert many == few
        assert len(starts(process.pid) - before) <= MOST
        assert attached.finish(process) == (7, "wrong 0\n", "")


OBJECTS = {
    "python": (
        [few_pythons()[0], "-c"],
        """
import time
class Kept: ...
print("here", flush=True)
while True:
    kept = Kept(), {"a": [1]}
    time.sleep(0.001)
""",
    ),
    "ruby": (
        [os.environ.get("SOSCOPE_RUBY") or need("ruby"), "-e"],
        """
class Kept; end
$stdout.sync = true
puts "here"
loop { kept = Kept.new, {"a" => [1]}; sleep 0.001 }
""",
    ),
}


@pytest.mark.parametrize("language", OBJECTS)
def test_counting_objects_leaves_no_table(language: str) -> None:
    """Tables of lines, of classes and of objects go with the session that needed them."""
    command, source = OBJECTS[language]
    words = [*command, source]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert hear(process) == "here\n"
            before, memory = size_of(process.pid)[0], resident(process.pid)
            grown = []
            for _ in range(4):
                for verb in (["mem", "attach"], ["detach"]):
                    done = survivors.soscope(*verb, "-p", str(process.pid))
                    assert done.returncode == 0
                    assert "counts its objects" in done.stdout + done.stderr
                left = remains(process.pid)
                assert (left["why"], left["mappings"]) == (None, 3)
                grown.append(size_of(process.pid)[0] - before - left["bytes"])
            # what is more than is told of is the interpreter's own: the tables are larger by far
            assert max(grown) <= 2 << 20
            assert resident(process.pid) - memory <= 1 << 20
            assert process.poll() is None
        finally:
            process.kill()


def rights(pid: int, path: str) -> dict[int, str]:
    """Return the rights of each page of a file that a process has mapped."""
    return {
        page: each.flags
        for each in maps.read(pid)
        if each.path == path
        for page in range(each.start, each.end, PAGE)
    }


LAZY = """
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    puts("here");
    fflush(stdout);
    if (argc > 7)
        execv("/bin/true", argv);
    return getchar() == EOF;
}
"""


@pytest.mark.parametrize("words", [("-e", "no_such_function"), ("-e", "getchar"), ("-c",)])
def test_pages_have_the_rights_that_they_had(words: tuple[str, ...], tmp_path: Path) -> None:
    """Relocations of lazy slots are changed, also if only calls are hooked that soscope needs."""
    path = elffiles.built(tmp_path, "lazy", LAZY, "-Wl,-z,lazy")
    with subprocess.Popen(
        [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert hear(process) == "here\n"
            before = rights(process.pid, str(path))
            tracer = attached.begin(process.pid, *words)
            assert rights(process.pid, str(path)) == before
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=limit())
            assert rights(process.pid, str(path)) == before
        finally:
            process.kill()


def test_detach_says_what_is_left() -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        until(has_run(process.pid), "threads have heaps")
        before = starts(process.pid)
        attached.trace(process.pid, "-c", "--duration", "20ms")
        assert (
            wrong_members(json.loads(attached.detach(process.pid, "--json").stdout), DETACH) == []
        )
        left = remains(process.pid)
        assert left["mappings"] == len(starts(process.pid) - before) <= MOST
        assert left["rss_bytes"] <= 1 << 20
        assert left["why"] is None
        text = attached.detach(process.pid).stdout
        assert f"{left['mappings']} mappings stay for the next session" in text


MANY = """
import decimal, json, re, time
print("ready", flush=True)
while True:
    json.dumps({"a": [re.match("a", "ab"), str(decimal.Decimal(1))]}, default=str)
    time.sleep(0.001)
"""


def test_each_way_in_a_program_with_many_slots_leaves_less_than_a_mebibyte(tmp_path: Path) -> None:
    """Tables of what was hooked are made again by the next session."""
    ways = {"called": ["called", "libc.so.6"], "all": ["trace", "-c", "--from", "all"]}
    with attached.running([few_pythons()[0], "-c", MANY]) as process:
        left = []
        for _ in range(2):
            for way, words in (WAYS | ways).items():
                attach(process.pid, words, tmp_path / way)
            left.append(remains(process.pid))
        assert [one["why"] for one in left] == [None, None]
        assert left[0]["mappings"] == left[1]["mappings"] <= MOST
        assert max(one["rss_bytes"] for one in left) <= 3 << 18
        assert process.poll() is None


def tell(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdin is not None
    process.stdin.write(words)
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def remains(pid: int) -> dict[str, Any]:
    """Return what is said to be left of the only agent of a process, after another try."""
    [left] = json.loads(attached.detach(pid, "--json").stdout)["remains"]
    return dict(left)


def test_memory_stays_as_long_as_a_kept_context_may_return() -> None:
    """Coroutines that a signal has interrupted in the agent go on there, whenever that is."""
    reasons = []
    with attached.running([build.program("kept_contexts")]) as process:
        for number in range(4):
            way = "-c" if number % 2 else "--count-only"
            tracer = attached.begin(process.pid, way, "--from", "all")
            until(has_run(process.pid), "coroutines make calls", running=tracer)
            tell(process, "s")
            assert hear(process) == "stopped\n"
            tracer.send_signal(signal.SIGINT)
            _, notes = tracer.communicate(timeout=limit())
            assert tracer.returncode == 0, notes
            reasons.append(remains(process.pid)["why"])
            tell(process, "g")
        assert any(why and "interrupted in the agent" in why for why in reasons), reasons
        # nobody knows where a coroutine's stack ends: what was left there counts
        tell(process, "w")
        until(lambda: remains(process.pid)["why"] is None, "memory is given back")
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_copies_of_trampolines_go_on_leading_to_the_function() -> None:
    """The program may have copied what a slot held; the next session uses the same one again."""
    with attached.running([build.program("kept_pointer")]) as process:

        def is_right(line: str, count: int) -> bool:
            tell(process, f"{line}\n")
            return hear(process) == f"{count} wrong 0\n"

        for count, way in enumerate(("-c", "--count-only", "-c"), 1):
            tracer = attached.begin(process.pid, way)
            assert is_right("k", count)
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=limit())
            assert is_right("still", count)
            left = remains(process.pid)
            assert left["why"] is None
            assert left["mappings"] <= MOST
            assert is_right("again", count)
        assert attached.finish(process)[0] == 7
