# SPDX-License-Identifier: Apache-2.0
"""Running programs of other C libraries: in and out again, and what their slots lead to."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration import loaders
from tests.integration.loaders import SUITES, Loader
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.targets import build, mapped
from tests.support.targets.covering import sizes
from tests.support.targets.matrix import PLAIN
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run
from tests.support.truth import bound

MUSL = PLAIN._replace(compiler="musl")
SOSCOPE = [sys.executable, "-m", "soscope"]
MODES = {
    "count": ["--count-only", "--from", "all"],
    "times": ["-c", "--from", "all"],
    "record": ["--from", "all", "--record", "{}"],
}


@pytest.fixture(params=[f"{libc}-{how}" for libc in (*SUITES, "musl") for how in ("lazy", "now")])
def program(request: pytest.FixtureRequest) -> Path:
    """Return a program that allocates in threads, made for a C library."""
    libc, _, binding = str(request.param).partition("-")
    if libc == "musl":
        return build.program("attached", MUSL._replace(binding=binding))
    return loaders.program("attached", binding, Loader(libc))


def start(pid: int, *options: str) -> subprocess.Popen[str]:
    """Begin to trace a process; return when the agent is in."""
    tracer = attached.start(pid, *options)
    are_hooked = lambda: mapped.slots(mapped.read(pid, "--changed"), "hooked")  # noqa: E731
    until(are_hooked, "slots are hooked", running=tracer)
    return tracer


@pytest.mark.every(6)
@pytest.mark.parametrize("times", sizes(1, 2))
def test_in_and_out_again(program: Path, times: int, tmp_path: Path) -> None:
    with attached.running([program, "4"]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(times):
            for mode in MODES.values():
                words = [word.format(tmp_path / "output") for word in mode]
                done = attached.observe(process.pid, *words, until=has_run(process.pid))
                assert done.returncode == 0, done.stderr
                assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


@pytest.mark.every(6)
def test_after_a_soscope_that_was_killed(program: Path) -> None:
    with attached.running([program, "4"]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(2):
            tracer = start(process.pid, "-c", "--from", "all")
            tracer.send_signal(signal.SIGKILL)
            tracer.communicate(timeout=limit())
            done = attached.detach(process.pid)
            assert done.returncode == 0, done.stderr
            assert re.search(r": \d+ words restored", done.stdout)
            assert attached.differences(before, process.pid) == []
            done = attached.detach(process.pid)
            assert done.stdout.startswith(f"process {process.pid}: nothing to undo")
        assert attached.finish(process) == (7, "wrong 0\n", "")


@functools.cache
def defined(path: str) -> dict[str, set[int]]:
    """Return the link-time addresses of the symbols that a library exports, as nm has them."""
    found: dict[str, set[int]] = {}
    text = run([need("nm"), "-D", "--defined-only", path]).stdout
    for vaddr, name in re.findall(r"^([0-9a-f]+) [A-Za-z] ([^@\n]+)", text, re.MULTILINE):
        found.setdefault(name, set()).add(int(vaddr, 16))
    return found


def ifuncs(path: str) -> set[str]:
    text = run([need("readelf"), "--dyn-syms", "-W", path]).stdout
    return set(re.findall(r" IFUNC .* ([^ @]+)(?:@\S+)?$", text, re.MULTILINE))


@pytest.mark.every(6)
def test_slots_are_what_the_loader_made_them(program: Path, tmp_path: Path) -> None:
    with mapped.started(program, "2", env=bound.debugging(tmp_path)) as process:
        document = mapped.read(process.pid)
        written = tmp_path / f"bindings.{process.pid}"
        said = bound.told(tmp_path, process.pid, str(program)) if written.exists() else None
    images = {one["name"]: one for one in document["images"]}
    assert not mapped.slots(document, "hooked")
    assert not mapped.slots(document, "interposed")
    checked = 0
    for image in document["images"]:
        path = os.path.realpath(image["path"])
        for slot in image["slots"]:
            if slot["state"] != "bound" or slot["to_image"] in (None, "linux-vdso.so.1"):
                continue
            target = images[slot["to_image"]]
            # where it leads is where the library defines that name
            vaddr = int(slot["value"], 16) - int(target["load_bias"], 16)
            if slot["symbol"] not in ifuncs(target["path"]):
                here = target["name"] == image["name"] or target is document["images"][0]
                assert vaddr in defined(target["path"]).get(slot["symbol"], set()) or here, slot
            if said is None or image["name"].startswith("ld-linux"):
                continue
            told = {one.provider for one in said if one[:2] == (path, slot["symbol"])}
            assert told == {os.path.realpath(target["path"])}, slot
            checked += 1
    assert checked > 10 or said is None


@pytest.mark.every(5)
def test_the_map_of_a_traced_process(program: Path) -> None:
    with attached.running([program, "2"]) as process:
        tracer = start(process.pid, "--count-only", "-e", "malloc@MAIN,free@MAIN")
        document = mapped.read(process.pid)
        changed = mapped.slots(document, "hooked")
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=limit())
        after = mapped.read(process.pid)
    mine = [one for one in changed if one["symbol"] in {"malloc", "free"}]
    assert len(mine) == 2
    assert {one["to_image"] for one in changed} == {"soscope's agent"}
    assert not mapped.slots(after, "hooked")


@pytest.mark.every(5)
def test_the_way_of_a_call(program: Path) -> None:
    with attached.running([program, "2"]) as process:
        words = [*SOSCOPE, "explain", "--json", "-p", str(process.pid), "--from", "MAIN"]
        found = {name: json.loads(run([*words, name]).stdout) for name in ("malloc", "usleep")}
        images = {one["name"]: one for one in mapped.read(process.pid)["images"]}
    rows = run([need("readelf"), "-rW", str(program)]).stdout
    for name, document in found.items():
        (way,) = document["ways"]
        (vaddr,) = re.findall(
            rf"^([0-9a-f]+) .*R_X86_64_\w+ .* {name}(?:@\S+)? \+", rows, re.MULTILINE
        )
        bias = int(way["load_bias"], 16)
        assert int(way["slot"]["addr"], 16) == int(vaddr, 16) + bias
        home = images[way["slot"]["expected_image"]]
        assert home["name"] in document["defined_in"]
        at = int(way["definition"], 16) - int(home["load_bias"], 16)
        assert at in defined(home["path"])[name]
        assert way["slot"]["state"] in ("bound", "unbound")
        assert any(one["kind"] in ("stub", "call") for one in way["uses"])
