# SPDX-License-Identifier: Apache-2.0
"""Who holds objects of running Pythons: as their own collector says it."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soscope.errors import SoscopeError
from soscope.instruments.mem.live import attach, visit_objects
from soscope.instruments.mem.objects import ObjectsPlace
from soscope.instruments.mem.refs import refs as refs_module
from soscope.instruments.mem.refs.graph import RefGraph
from soscope.instruments.mem.refs.model import HolderPath as Way
from soscope.instruments.mem.refs.model import RefsReport, Where
from soscope.instruments.mem.refs.refs import refs
from soscope.proc.memory import ProcessMemory
from soscope.report.memrefs import refs_text
from soscope.wire import headers as layout
from tests.support.machines.pythons import few_pythons, pythons
from tests.support.machines.tools import need
from tests.support.processes.run import kill
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.mem import REFS
from tests.support.targets.survivors import TARGETS, soscope
from tests.support.time.patience import limit

HOLDERS = TARGETS / "holders.py"


def lines_of(path: Path) -> dict[str, int]:
    """Return the lines that a target's marks name."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return {line.split(" # held: ")[1]: number for number, line in lines if " # held: " in line}


LINES = lines_of(HOLDERS)


@contextmanager
def holding(python: str, *words: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run the target, which counts its objects; see that it ends as it does alone."""
    pipe = subprocess.PIPE
    command = [python, *(words or [str(HOLDERS)])]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            attach(process.pid)
            print(file=process.stdin, flush=True)
            yield process.pid, process
            said, errors = process.communicate("\n", timeout=limit())
            assert (process.returncode, said, errors) == (0, "the end\n", "")
        finally:
            kill(process)


def said_of(report: RefsReport) -> dict[str, int]:
    """Return the lines of a report, which say that of so many objects."""
    lines = [line.split(" of ", 1) for line in refs_text(report).splitlines() if " of " in line]
    return {line.split(": ", 1)[1]: int(count) for count, line in lines if count.isdecimal()}


EXPECTED = {
    "items": ("list", {"__main__.cache (module global) → dict['users'] → list item → list"}),
    "attribute": (
        "list",
        {"__main__.server (module global) → Server.sessions → dict value → list"},
    ),
    "class": ("set", {"__main__.Server.registry (class attribute) → list item → set"}),
    "slot": (
        "bytearray",
        {"__main__.slotted (module global) → Slotted.held → list item → bytearray"},
    ),
    "closure": (
        "list",
        {"__main__.callback (module global) → function closure kept → list item → list"},
    ),
    "generator": (
        "list",
        {
            "__main__.generator (module global) → generator local mine → list item → list",
            "__main__.generator (module global) → generator local mine → list",
        },
    ),
    "lru": ("list", {"__main__.cached (module global) → _lru_cache_wrapper → dict value → list"}),
    "module": ("list", {"other.queue (module global) → deque item → list"}),
    "key": ("tuple", {"__main__.by_key (module global) → dict key → tuple"}),
    "text": ("str", {"__main__.names (module global) → dict key → str"}),
    "weak": ("Weak", {"__main__.strong (module global) → list item → Weak"}),
}


def way_of(report: RefsReport) -> Way:
    """Return the way that most of the objects have."""
    assert report.paths
    return report.paths[0]


@pytest.mark.every(6)
@pytest.mark.parametrize("python", pythons())
def test_known_holders(python: str) -> None:
    with holding(python) as (pid, process):
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == [True] * 10  # the collector agrees
        for name, (kind, expected) in EXPECTED.items():
            report = refs(pid, Where("holders.py", LINES[name], kind), samples=5)
            assert set(said_of(report)) == expected, name
            assert sum(said_of(report).values()) == 5
            assert report.where.file == str(HOLDERS)

        where = Where("holders.py", LINES["frame"], "list")
        frame = way_of(refs(pid, where, samples=30))
        assert (frame.root.kind, frame.root.name, frame.root.file) == (
            "frame",
            "waiting",
            str(HOLDERS),
        )
        assert frame.root.line == LINES["temporary"] + 1
        assert ([step.by for step in frame.steps], frame.count) == (["rows", "item"], 20)

        where = Where("holders.py", LINES["temporary"], "dict")
        frame = way_of(refs(pid, where, samples=30))
        assert (frame.root.kind, frame.root.name) == ("frame", "waiting")
        assert [step.type for step in frame.steps][-2:] == ["list", "dict"]
        assert frame.count >= 19  # the loop has taken one

        for name, kinds in (("native", ["list"]), ("cycle", ["list", "list"])):
            report = refs(pid, Where("holders.py", LINES[name], "list"), samples=40)
            (way,) = report.paths
            assert way.root.kind == ("native" if name == "native" else "garbage")
            assert [step.type for step in way.steps] == kinds
            assert way.count == report.samples

        way = way_of(refs(pid, Where("holders.py", LINES["local"], "list"), samples=30))
        assert (way.root.kind, way.root.name, way.steps[0].type) == ("module", "__main__", "_local")
        assert [step.by for step in way.steps[-2:]] == ["['rows']", "item"]


_WORLD = """
import gc, json, sys
class Own:
    pass
class Slots:
    __slots__ = ("a", "b")
def gen():
    x = [1]
    yield x
print("ready", flush=True)
sys.stdin.readline()
kept = [Own(), Slots(), gen(), {1: [2]}, {"a": 1}, (1, "x"), {3}, frozenset([4]), lambda: kept]
next(kept[2])
kept[0].attribute = kept
kept[1].a = kept[0]
def look():
    gc.collect()
    # what prints and reads has other objects a moment later
    some = [one for one in gc.get_objects() if type(one).__module__ != "_io"]
    some = kept + [one for one in some if one is not globals() and not id(one) // 16 % 7]
    return {id(one): [id(two) for two in gc.get_referents(one)] for one in some}
first, second = look(), look()
there = set(map(id, gc.get_objects()))
same = {at: to for at, to in second.items() if at in there and first.get(at) == to}
print(json.dumps(same), flush=True)
sys.stdin.readline()
print("the end", flush=True)
"""


class _Whole(refs_module._RefsLook):
    """Gives all references as they were told."""

    def _look(self, place: ObjectsPlace, graph: RefGraph, modules: int) -> Any:
        columns = graph.addrs, graph.holder_kinds, graph.targets, graph.kinds, graph.holders
        self.whole = [column.tobytes() for column in columns]
        return None

    def result(self) -> Any:
        return tuple(self.whole)


@pytest.mark.every(4)
@pytest.mark.parametrize("python", pythons())
def test_references_are_those_of_the_collector(python: str) -> None:
    with holding(python, "-c", _WORLD) as (pid, process):
        assert process.stdout is not None
        truth = {int(at): Counter(to) for at, to in json.loads(process.stdout.readline()).items()}

        def work(interpreter: Any, _: ObjectsPlace) -> Any:
            interpreter.stays = True
            memory = ProcessMemory(pid)
            look = _Whole(interpreter.block, memory, pid, Where("", 0, None), 1)
            interpreter.order(layout.OBJECTS_REFS, look.answer)
            return look.result()

        types = (np.uint64, np.uint8, np.uint64, np.uint8, np.int32)
        columns = zip(visit_objects(pid, work)[0], types, strict=True)
        addrs, holder_kinds, targets, kinds, holders = (
            np.frombuffer(column, kind) for column, kind in columns
        )
        told: dict[int, Counter[int]] = {}
        sure = (kinds == layout.REF_OBJECT) | (kinds == layout.REF_TYPE)
        sure &= holder_kinds[holders] == layout.REF_HOLDER
        for holder, target in zip(
            addrs[holders[sure]].tolist(), targets[sure].tolist(), strict=True
        ):
            told.setdefault(holder, Counter())[target] += 1
        compared = 0
        for holder, expected in truth.items():
            if holder in told or expected:
                assert told.get(holder, Counter()) == expected
                compared += 1
        assert compared > 300


def test_the_command() -> None:
    with holding(pythons()[0]) as (pid, process):
        assert process.stdout is not None
        process.stdout.readline()
        where = f"mem/holders.py:{LINES['items']}"
        done = soscope(
            "mem", "refs", "-p", str(pid), "--json", "--sample-size", "7", f"{where}:list"
        )
        assert (done.returncode, done.stderr) == (0, "")
        document = json.loads(done.stdout)
        assert not wrong_members(document, REFS)
        assert (document["objects"], document["samples"]) == (20, 7)
        assert [path["count"] for path in document["paths"]] == [7]
        done = soscope("mem", "refs", "-p", str(pid), where)
        assert "10 of 10: __main__.cache (module global)" in done.stdout
        for wrong in ("holders.py:1", "olders.py:40", f"{where}:Nothing"):
            done = soscope("mem", "refs", "-p", str(pid), wrong)
            assert (done.returncode, done.stdout) == (1, "")
            assert "error: no object that was made at" in done.stderr


def test_a_process_that_does_not_count() -> None:
    with subprocess.Popen([few_pythons()[0], "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            with pytest.raises(SoscopeError, match="does not count") as raised:
                refs(process.pid, Where("x.py", 1, None), samples=1)
            assert "soscope mem attach" in str(raised.value.hint)
        finally:
            process.kill()


def test_two_files_of_one_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text("kept = [[1]]\n")
    source = f"""
import sys
print("ready", flush=True)
sys.stdin.readline()
for folder in "ab":
    sys.path.insert(0, {str(tmp_path)!r} + "/" + folder)
    sys.modules.pop("same", None)
    globals()[folder] = __import__("same")
print("here", flush=True)
sys.stdin.readline()
print("the end", flush=True)
"""
    with holding(pythons()[0], "-B", "-c", source) as (pid, process):
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(SoscopeError, match="the end of several paths"):
            refs(pid, Where("same.py", 1, "list"), samples=1)
        report = refs(pid, Where("b/same.py", 1, "list"), samples=9)
        assert report.objects == 2


def test_known_holders_of_ruby() -> None:
    path = TARGETS / "holders.rb"
    lines = lines_of(path)
    with holding(need("ruby"), str(path)) as (pid, process):
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == [True] * 4  # ObjectSpace agrees
        report = refs(pid, Where("holders.rb", lines["constant"], "Array"), samples=40)
        ways = {way.root.kind: way for way in report.paths}
        held = ways["class"]
        assert (held.root.name, held.count) == ("Server", 20)
        assert [(step.type, step.by) for step in held.steps] == [("Array", None), ("Array", "item")]
        report = refs(pid, Where("holders.rb", lines["attribute"], "Array"), samples=40)
        (way,) = (way for way in report.paths if way.count == 20)
        assert way.root.kind == "interpreter"
        assert [step.type for step in way.steps] == ["Server", "Array", "Array"]
        report = refs(pid, Where("holders.rb", lines["cycle"], "Array"), samples=40)
        assert sum(way.count for way in report.paths if way.root.kind == "garbage") >= 38
