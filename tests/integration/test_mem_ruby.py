# SPDX-License-Identifier: Apache-2.0
"""Objects of Ruby that stay alive, by file, line and class: as Ruby's own account has them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import besides_cost, run
from tests.support.targets.survivors import TARGETS, counts, report, soscope
from tests.support.time.patience import limit

pytestmark = pytest.mark.shares

ALIVE, ENDS, ACCOUNT, NAMELESS = (
    TARGETS / f"{name}.rb" for name in ("alive", "ends", "account", "nameless")
)
Rows = dict[tuple[str, int, str], tuple[int, int]]  # file, line, class: objects, bytes

WAYS = {
    "kill": (None, "SIGKILL"),
    "term": (None, "SIGTERM"),
    "exit!": (3, None),
    "exec": (0, None),
    "exit": (5, None),
    "raise": (1, None),
    "abort": (1, None),
    "system": (0, None),
}
# The two programs of memprof's article, but for the lines that name memprof.
ARTICLE = """\
@blah = Hash.new([])

100.times {
  @blah[1] << "aaaaa"
}

1000.times {
  @blah[2] << "bbbbb"
}
"""


@pytest.fixture(scope="module")
def ruby() -> str:
    return need("ruby")


def record(recording: Path, *words: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    return soscope("mem", "run", "--objects", "-o", recording, *words)


def is_program(name: str) -> bool:
    """Whether objects of that type are the program's, not those that Ruby hides."""
    return not re.fullmatch(r"__\w+__", name)


def seen(document: dict[str, Any], files: set[str]) -> Rows:
    return {
        (row["file"], row["line"], row["type"]): (row["count"], row["bytes"])
        for row in document["survivors"]
        if row["file"] in files and row["line"] and is_program(row["type"])
    }


def account(ruby: str, directory: Path, collect: bool, *words: str) -> Rows:
    """Return what Ruby says of an untraced run."""
    path = directory / "account"
    environ = {**os.environ, "ACCOUNT": str(path)}
    if collect:
        environ["ACCOUNT_COLLECT"] = "1"
    done = run([ruby, "-r", str(ACCOUNT), str(ALIVE), *words], env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    rows: Rows = {}
    for text in path.read_text().splitlines():
        file, line, name, count, size = text.split("\t")
        rows[file, int(line), name] = int(count), int(size)
    return rows


def marks(path: Path) -> dict[int, dict[str, int]]:
    marked: dict[int, dict[str, int]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = re.search(r"# alive: (.*)$", line)
        if mark:
            pairs = [] if mark[1] == "none" else [word.split() for word in mark[1].split(", ")]
            marked[number] = {name: int(count) for count, name in pairs}
    assert marked
    return marked


@pytest.mark.every(2)
@pytest.mark.parametrize("words", [("--gc",), ()])
def test_each_line_leaves_what_ruby_says_itself(
    ruby: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    arguments = () if words else ("disable",)  # of collections: they come when they like
    recording = tmp_path / "rec"
    done = record(recording, *words, "--", ruby, ALIVE, *arguments)
    assert (done.returncode, besides_cost(done.stderr)) == (0, "")
    document = report(recording)
    assert (document["state"], document["objects"]) == ("complete", "exact")
    assert document["runtime"]["name"] == "ruby"
    totals = document["totals"]["objects"]
    assert totals["live"] == sum(row["count"] for row in document["survivors"])
    assert totals["created"] == totals["live"] + totals["destroyed"]
    files = {str(ALIVE), "made.rb"}
    own = account(ruby, tmp_path, bool(words), *arguments)
    truth = {key: row for key, row in own.items() if key[0] in files and key[1]}
    rows = seen(document, files)
    assert {key: row[0] for key, row in rows.items()} == {key: row[0] for key, row in truth.items()}
    sizes = {key for key in truth if rows[key] != truth[key]}
    assert {name for _, _, name in sizes} <= {"Fiber"}  # their stacks are as deep as they are
    assert rows["made.rb", 77, "String"][0] == 21
    if words:
        by_line = counts(document, str(ALIVE))
        for line, wanted in marks(ALIVE).items():
            kept = {
                name: count for name, count in by_line.get(line, {}).items() if name[:2] != "__"
            }
            assert kept == wanted, line


@pytest.mark.every(7)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_ends_the_program(ruby: str, way: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    status, name = WAYS[way]
    plain = run([ruby, ENDS, way])
    done = record(recording, "--", ruby, ENDS, way)
    assert (done.returncode, done.stdout) == (plain.returncode, "here\n")
    said = [line for line in done.stderr.splitlines() if not line.startswith("soscope: ")]
    assert said == plain.stderr.splitlines()
    if name:
        assert done.returncode == -signal.Signals[name]
    document = report(recording)
    assert document["exit"] == {"status": status, "signal": name}
    assert document["state"] == "complete"
    by_line = counts(document, str(ENDS))
    assert (by_line[6]["String"], by_line[7]["Kept"]) == (1234, 77)


def line_of(text: str) -> int:
    """Return the line of `ENDS` that begins so."""
    lines = [line.strip() for line in ENDS.read_text().splitlines()]
    (number,) = (number for number, line in enumerate(lines, 1) if line.startswith(text))
    return number


def test_objects_of_the_last_handlers(ruby: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "--", ruby, ENDS, "atexit").returncode == 0
    by_line = counts(report(recording), str(ENDS))
    assert by_line[line_of("$first")]["Object"] == 50
    assert by_line[line_of("at_exit { $second")]["Object"] == 60


def test_a_child_has_objects_of_its_own(ruby: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "-f", "--", ruby, ENDS, "fork").returncode == 0
    document = report(recording)
    parent = document["pid"]
    (child,) = {process["pid"] for process in document["processes"]} - {parent}
    assert counts(document, str(ENDS), parent)[6]["String"] == 1234
    mine = line_of("$mine")
    assert mine not in counts(document, str(ENDS), parent)
    assert counts(document, str(ENDS), child)[mine]["Object"] == 555


def test_a_program_with_ractors_is_refused(ruby: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    done = record(recording, "--", ruby, ENDS, "ractor")
    assert (done.returncode, done.stdout) == (0, "here\n42\n")
    document = report(recording)
    assert document["survivors"] == []
    assert any("Ractors" in note for note in document["notes"])


@pytest.mark.every(2)
@pytest.mark.parametrize("words", [(), ("kill",)])
def test_compaction_takes_no_origin_away(ruby: str, words: tuple[str, ...], tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    record(recording, "--", ruby, ENDS, "compact", *words)
    document = report(recording)
    assert document["exit"]["signal"] == ("SIGKILL" if words else None)
    by_line = counts(document, str(ENDS))
    assert (by_line[6]["String"], by_line[7]["Kept"]) == (617, 77)
    assert not any("compaction" in note for note in document["notes"])


def test_the_programs_own_trace_points_go_on(ruby: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "--gc", "--", ruby, ENDS, "points").returncode == 0
    by_line = counts(report(recording), str(ENDS))
    assert by_line[6]["String"] == 1234
    assert by_line[line_of("$more")]["Object"] == 321


@pytest.mark.every(2)
@pytest.mark.parametrize("words", [(), ("--gc",)])
def test_the_articles_first_program(ruby: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "test.rb").write_text(ARTICLE)
    recording = tmp_path / "rec"
    assert record(recording, *words, "--", ruby, tmp_path / "test.rb").returncode == 0
    done = soscope("mem", "report", "--format", "stats", recording)
    lines = [line.replace(f"{tmp_path}/", "") for line in done.stdout.splitlines()]
    strings = [line for line in lines if re.search(r" test\.rb:[48]:String$", line)]
    assert strings == ["   1000 test.rb:8:String", "    100 test.rb:4:String"]


def test_an_extensions_file_stands_where_it_is_required(ruby: str, tmp_path: Path) -> None:
    (tmp_path / "test2.rb").write_text('require "stringio"\n$io = StringIO.new\n')
    recording = tmp_path / "rec"
    done = record(recording, "--", ruby, "--disable-gems", tmp_path / "test2.rb")
    assert done.returncode == 0
    document = report(recording)
    made = {row["type"] for row in document["survivors"] if "stringio.so" in str(row["file"])}
    assert {"__imemo__", "Class"} <= made
    lines = {row["line"] for row in document["survivors"] if "stringio.so" in str(row["file"])}
    assert lines == {0}
    assert counts(document, str(tmp_path / "test2.rb"))[2]["StringIO"] == 1


def test_a_running_program_is_visited_and_goes_on(ruby: str, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    program = subprocess.Popen([ruby, ENDS, "busy", stop], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    try:
        assert program.stdout.readline() == "here\n"
        for words in ((), ("--gc",)):
            done = soscope("mem", "snapshot", "-p", str(program.pid), *words, "--json")
            assert (done.returncode, done.stderr) == (0, "")
            document = json.loads(done.stdout)
            kept = [row for row in document["survivors"] if row["type"] == "Kept"]
            assert [(row["file"], row["line"], row["count"]) for row in kept] == [(None, 0, 77)]
        stop.touch()
        assert program.wait(limit()) == 0
        assert program.stdout.read() == "1234\n"
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


class Server:
    """A Ruby that makes and ends classes without a name, as it is told."""

    def __init__(self, ruby: str) -> None:
        words, pipe = [ruby, str(NAMELESS), "serve"], subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def do(self, *words: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for word in words:
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "did\n", word

    def visit(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        family = [] if verb == "detach" else ["mem"]
        done = soscope(*family, verb, "-p", str(self.process.pid), *words)
        assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
        return done

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=limit())
        return self.process.returncode, out, err


def test_classes_that_end_between_two_sessions(ruby: str) -> None:
    server = Server(ruby)
    try:
        server.visit("attach", "-q")
        server.do("make")
        server.visit("detach", "-q")
        server.do("end", "fill")  # their slots have other objects
        server.visit("attach", "-q")
        server.do("make")
        document = json.loads(server.visit("snapshot", "--json").stdout)
        assert server.end() == (0, "the end\n", "")
    finally:
        server.process.kill()
        server.process.wait()
    nameless = [row for row in document["survivors"] if row["type"] == "#<Class>"]
    assert sum(row["count"] for row in nameless if row["file"] == str(NAMELESS)) > 0


@pytest.mark.parametrize("way", ["condemned", "unheard"])
def test_classes_that_end_as_the_program_does(ruby: str, way: str, tmp_path: Path) -> None:
    done = record(tmp_path / "rec", "-q", "--", ruby, NAMELESS, way)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")
    document = report(tmp_path / "rec")
    assert document["state"] == "complete"
    totals = document["totals"]["objects"]
    assert totals["created"] > 3000
    assert totals["live"] == sum(row["count"] for row in document["survivors"])
