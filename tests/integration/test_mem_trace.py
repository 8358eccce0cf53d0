# SPDX-License-Identifier: Apache-2.0
"""soscope_mem.trace: what programs do at the borders of their libraries, and exactly that."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

import soscope as package
from tests.integration.test_mem_inside import packages
from tests.support.machines.pythons import DISTRIBUTION, few_pythons, pythons
from tests.support.machines.tools import need
from tests.support.processes.run import kill, run
from tests.support.services import postgres
from tests.support.targets import build
from tests.support.targets.build import made_in
from tests.support.targets.survivors import TARGETS, soscope
from tests.support.time.patience import limit

pytestmark = pytest.mark.shares

PROGRAM = TARGETS / "traced.py"
FEW = few_pythons()


def traced(python: str, way: str, *words: str | Path, before: tuple[str, ...] = ()) -> str:
    """Run the program in a way; return what it printed."""
    done = run([*before, python, PROGRAM, way, *words], env={"PYTHONPATH": packages()})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder() -> Any:
    with tempfile.TemporaryDirectory(prefix="traced") as made:
        yield Path(made)


def library(folder: Path, source: str, *words: str | Path) -> Path:
    """Build a library of a source file beside the program."""
    made_in(
        folder, "gcc", "-shared", "-fPIC", "-o", f"{source}.so", TARGETS / f"{source}.c", *words
    )
    return folder / f"{source}.so"


def counts(group: dict[str, Any]) -> dict[str, int]:
    return {name: value["calls"] for name, value in group.items()}


@pytest.mark.parametrize("python", pythons())
def test_calls_and_bytes_are_those_of_the_script(python: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    first, again = json.loads(traced(python, "calls", tmp_path / "file"))
    for seen in (first, again):
        fd = seen["fd"]
        calls = {"open": 50, "read": 53, "readv": 50, "write": 52, "pwrite": 50, "close": 50}
        assert counts(fd) == calls
        assert fd["write"]["requested_bytes"] == sum(range(50)) + len("BEGIN\nEND\n")
        assert fd["write"]["actual_bytes"] == fd["write"]["requested_bytes"]
        assert fd["read"]["requested_bytes"] == 50 * 30 + 30
        assert fd["readv"]["requested_bytes"] == 50 * 15
        assert fd["pwrite"]["actual_bytes"] == 50 * 5
        assert fd["open"].keys() == {"calls", "time"}
        assert seen["gc"]["calls"] >= 0
        assert 0 < sum(each["time"] for each in fd.values()) < seen["time"]
        assert set(seen) - {"unseen"} == {"time", "objects", "gc", "memory", "fd", "resources"}


@pytest.mark.every(2)
@pytest.mark.parametrize("python", FEW[:2])
def test_below_soscope_nothing_needs_to_be_installed(python: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    words = (python, "-I", PROGRAM, "calls", tmp_path / "file")
    done = soscope("mem", "run", "--objects", "-o", tmp_path / "rec", "--", *words)
    assert done.returncode == 0, done.stderr
    for seen in json.loads(done.stdout):
        assert "all" not in seen["unseen"]
        assert counts(seen["fd"])["pwrite"] == 50


def test_strace_sees_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    log = tmp_path / "log"
    names = "read,readv,write,openat,pwrite64,close"
    before = (need("strace"), "-o", str(log), "-e", f"trace={names}")
    for seen in json.loads(traced(DISTRIBUTION, "calls", tmp_path / "file", before=before)):
        lines = log.read_text().splitlines()
        first = next(at for at, line in enumerate(lines) if "BEGIN" in line)
        last = next(at for at, line in enumerate(lines) if "END" in line)
        truth: dict[str, int] = {}
        for line in lines[first : last + 1]:
            name = re.sub(r"64$", "", line.split("(")[0].replace("openat", "open"))
            truth[name] = truth.get(name, 0) + 1
        assert counts(seen["fd"]) == truth


@pytest.mark.parametrize("count", [2, 100])
@pytest.mark.parametrize("python", FEW[:1])
def test_no_call_of_many_threads_is_lost(python: str, count: int) -> None:
    # beside those, threads wake one another
    assert int(traced(python, "threads", str(count))) == count * 1000


@pytest.mark.every(2)
@pytest.mark.parametrize("python", pythons())
def test_objects_are_counted_as_they_are_made(python: str) -> None:
    made, collected, nothing = map(json.loads, traced(python, "objects").splitlines())
    types = made["objects"]["types"]
    assert (types["Own"], types["bytearray"], types["set"]) == (40, 30, 20)
    assert made["objects"]["created"] == sum(types.values())
    assert collected["gc"]["calls"] == 10
    assert collected["gc"]["time"] > 0
    assert not {"dict", "str", "Own"} & collected["objects"]["types"].keys()
    assert nothing["objects"]["types"].keys() <= {"frame"}  # the call of `nothing` has one
    assert nothing["fd"] == {}


@pytest.mark.parametrize("python", FEW)
def test_a_trace_is_asked_for_in_many_ways(python: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    lines = traced(python, "ways", out).splitlines()
    assert lines[:2] == ["3 add", "'through' False"]
    # the child has an account of its own, and what its parent traces is not the child's to write
    assert lines[2:6] == ["2", "0", "1", "3"]
    assert json.loads(lines[6])["fd"] == {}
    assert json.loads(out.read_text())["time"] > 0


@pytest.mark.parametrize("python", pythons())
def test_queries_of_a_library_that_comes_meanwhile(python: str) -> None:
    seen = json.loads(traced(python, "sqlite"))
    types = {"other": 1, "insert": 10, "select": 7, "update": 1, "delete": 1}
    assert (seen["queries"], seen["types"]) == (20, types)
    assert seen["open"]["calls"] == 1
    assert seen["time"] > 0


@pytest.mark.parametrize("python", FEW)
def test_bytes_that_are_encrypted(python: str) -> None:
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days 36500"
    place = build.made(
        {},
        f"openssl {words} -keyout certificate.pem -out public.pem",
        ["sh", "-c", "cat public.pem >>certificate.pem"],
    )
    seen = json.loads(traced(python, "ssl", place / "certificate.pem"))
    sizes = sum(size * 100 for size in range(1, 11))
    assert seen["write"]["calls"] == 10
    assert seen["write"]["requested_bytes"] == seen["write"]["actual_bytes"] == sizes
    assert seen["read"]["actual_bytes"] == sizes
    assert seen["read"]["requested_bytes"] == 10 * 5000
    assert seen["handshake"]["calls"] == 4


@pytest.mark.parametrize("python", FEW[:2])
def test_calls_that_never_return_harm_nobody(python: str, folder: Path) -> None:
    words = library(folder, "manywords")
    made = library(folder, "leaving", words, "-Wl,-rpath,$ORIGIN", "-pthread")
    first, again = traced(python, "leaving", made).splitlines()
    fd, said = json.loads(first)
    assert said == [20, 20, 1, 1]
    assert fd["read"]["calls"] == 20 + 20
    assert fd["read"]["requested_bytes"] == 20 + 20
    assert fd["read"]["actual_bytes"] == 0
    assert counts(json.loads(again)) == counts(fd)


def test_libraries_that_come_and_go_are_all_counted(folder: Path) -> None:
    # each has 26 slots: more than there are places for them, if none was used again
    made = library(folder, "plugin")
    copy = folder / "copy.so"
    copy.write_bytes(made.read_bytes())
    called, seen, unseen = traced(DISTRIBUTION, "plugins", made, copy).splitlines()
    assert (called, seen) == ("1000", "1000 False")
    assert "no room" not in unseen


def test_images_without_room_are_said(folder: Path) -> None:
    source = (
        "#include <unistd.h>\nint once(int file) { char byte; return pread(file, &byte, 1, 0); }"
    )
    (folder / "small.c").write_text(source)
    words = ["-s", "-shared", "-fPIC", "-Wl,-z,noseparate-code", "-o", "small", "small.c"]
    made_in(folder, "gcc", *words)
    (folder / "many").mkdir()
    for number in range(2100):
        (folder / "many" / f"copy{number}.so").write_bytes((folder / "small").read_bytes())
    assert traced(DISTRIBUTION, "many", folder / "many") == "2100 True\n2100 True\n"


@pytest.mark.every(2)
@pytest.mark.parametrize("bound", ["lazy", "now"])
def test_threads_children_and_handlers_call_meanwhile(bound: str, folder: Path) -> None:
    made = library(folder, "storm", "-pthread", f"-Wl,-z,{bound}")
    assert traced(DISTRIBUTION, "storm", made) == "0 True 0 True\n"


def test_an_exception_goes_through_a_call(folder: Path) -> None:
    (sqlite,) = [*Path("/usr/lib").glob("*/libsqlite3.so.0")][:1] or [Path(need("sqlite3"))]
    made = folder / "throwing.so"
    made_in(folder, "g++", "-shared", "-fPIC", "-o", made, TARGETS / "throwing.cc", sqlite)
    seen, said = json.loads(traced(DISTRIBUTION, "throwing", made))
    assert said == [20, 20]
    assert (seen["queries"], seen["types"]) == (20, {"select": 20})


def test_an_answer_that_nobody_wants_is_not_read(folder: Path) -> None:
    made = library(folder, "unwanted", library(folder, "optional"), "-Wl,-rpath,$ORIGIN")
    lines = traced(DISTRIBUTION, "unwanted", made).splitlines()
    for line, size in zip(lines, (0, 100), strict=True):
        memcache, ssl, said = json.loads(line)
        assert said == [1]  # it fails once, by itself
        assert counts(memcache) == {"get": 3, "fetch": 1}
        assert memcache["get"]["actual_bytes"] == 2 * size
        assert memcache["fetch"]["actual_bytes"] == size
        assert memcache["get"]["responses"] == ({"success": 2, "notfound": 1} if size else {})
        assert [ssl[name]["actual_bytes"] for name in ("read", "write")] == [size, size]


def slots_of(pid: int) -> dict[tuple[str, str], str]:
    """Return what the slots of a process hold, as `soscope map` reads them."""
    shown = json.loads(soscope("map", "-p", str(pid), "--json").stdout)
    return {
        (image["path"], slot["addr"]): slot["value"]
        for image in shown["images"]
        for slot in image["slots"]
    }


@pytest.mark.every(2)
@pytest.mark.parametrize("python", FEW[:2])
def test_slots_are_as_they_were(python: str) -> None:
    process = subprocess.Popen(
        ["env", f"PYTHONPATH={packages()}", "LD_BIND_NOW=1", python, PROGRAM, "cycles"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "True\n"
        looks = []
        for _ in range(4):
            assert process.stdout.readline() == "look\n"
            looks.append(slots_of(process.pid))
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.wait(limit()) == 0
    finally:
        kill(process)
    first, second, meanwhile, last = looks
    assert first == second == last
    changed = [key for key in first if first[key] != meanwhile[key]]
    assert len(changed) > 20


def test_statements_are_those_of_the_servers_log(folder: Path) -> None:
    (libpq,) = [*Path("/usr/lib").glob("*/libpq.so.5")][:1] or [Path(need("libpq.so.5"))]
    made = library(folder, "pgclient", libpq)
    with postgres.folder() as place:
        postgres.cluster(place)
        with (place / "data" / "postgresql.conf").open("a") as file:
            file.write("log_statement = all\n")
        with postgres.served(place):
            words = f"host={place} user=bench dbname=postgres"
            seen, fd, said = json.loads(traced(DISTRIBUTION, "postgres", made, words))
        log = (place / "log").read_text()
    assert said == [0]
    truth = len(re.findall("LOG:  (statement|execute)", log))
    assert seen["queries"] == truth == 24
    types = {"insert": 12, "select": 5, "prepared": 4, "update": 1, "delete": 1, "other": 1}
    assert seen["types"] == types
    calls = counts({name: seen[name] for name in ("connect", "exec", "prepare", "finish")})
    assert calls == {"connect": 1, "exec": 24, "prepare": 1, "finish": 1}
    wire = seen["wire"]
    assert wire["connects"] == 1
    assert wire["round_trips"] == 24 + 1 + 1  # each statement, its preparation, the beginning
    assert wire["sent_bytes"] == fd["send"]["actual_bytes"]
    assert wire["received_bytes"] == fd["recv"]["actual_bytes"]


def ruby_library() -> str:
    return str(Path(str(package.__file__)).parent / "_agent" / "ruby")


@pytest.mark.every(2)
@pytest.mark.parametrize("is_below", [True, False])
def test_ruby_traces_a_block(is_below: bool, tmp_path: Path) -> None:
    words = [need("ruby"), str(TARGETS / "traced.rb")]
    if is_below:
        done = soscope("mem", "run", "-o", str(tmp_path / "rec"), "--", *words)
    else:
        done = run([words[0], "-I", ruby_library(), words[1]])
    assert done.returncode == 0, done.stderr
    first, second, threads, error, result, child, nothing = done.stdout.splitlines()
    for line in (first, second):
        seen = json.loads(line)
        assert seen["fd"]["write"]["calls"] == 30
        assert seen["fd"]["write"]["actual_bytes"] == sum(range(30))
        assert seen["gc"]["calls"] >= 5
        assert seen["gc"]["time"] > 0
        if is_below:
            types = seen["objects"]["types"]
            assert (types["float"], types["module"]) == (20, 10)
            assert seen["objects"]["created"] == sum(types.values())
        else:
            assert seen["objects"]["created"] >= 60
            assert "objects" in seen["unseen"]
    # Ruby's threads wake one another, by eight bytes each
    write = json.loads(threads)["fd"]["write"]
    others = write["calls"] - 5000
    assert write["actual_bytes"] == 15000 + 8 * others
    assert error.startswith("unable to open output file")
    assert result == "result"
    assert json.loads(child)["fd"]["write"] == {
        **json.loads(child)["fd"]["write"],
        "calls": 1,
        "actual_bytes": 12,
    }
    assert json.loads(nothing)["fd"] == {}
