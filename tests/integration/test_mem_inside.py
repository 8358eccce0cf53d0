# SPDX-License-Identifier: Apache-2.0
"""Programs that count their own objects: soscope_mem, in each Python."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import soscope as soscope_package
import soscope_mem
from soscope.instruments.mem.inside import files
from tests.support.machines.pythons import few_pythons, pythons
from tests.support.processes.run import besides_cost, kill, run
from tests.support.targets.locked import alone
from tests.support.targets.matrix import FOLDER, REPOSITORY
from tests.support.targets.survivors import TARGETS, Counts, counts, marks, report, soscope, version
from tests.support.time.patience import limit

PACKAGE = REPOSITORY / "integrations" / "python"
INSIDE = TARGETS / "inside.py"
_LINE = re.compile(r" *(\d+) (.*):(\d+):([^:]*)")


@cache
def packages() -> str:
    """Return a folder with the packages that are tested here, for Pythons that lack them."""
    paths = [Path(str(package.__file__)).parent for package in (soscope_package, soscope_mem)]
    digest = hashlib.sha256("\0".join(map(str, paths)).encode()).hexdigest()[:16]
    folder = FOLDER / "packages" / digest
    with alone(folder):
        folder.mkdir(exist_ok=True)
        for path in paths:
            with contextlib.suppress(FileExistsError):  # another run has made it
                (folder / path.name).symlink_to(path)
    return str(folder)


def inside(
    python: str, way: str, out: Path, *words: str | Path, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Have a Python that has the package count its own objects."""
    env = {"PYTHONPATH": packages(), **how.pop("env", {})}
    return run([python, INSIDE, way, out, *words], env=env, **how)


def rows(text: str, file: Path = INSIDE) -> Counts:
    """Return the lines of one file, as `marks` does."""
    by_line: Counts = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        assert match, line
        if match[2] == str(file):
            by_line.setdefault(int(match[3]), {})[match[4]] = int(match[1])
    return by_line


def line_of(mark: str) -> int:
    lines = enumerate(INSIDE.read_text().splitlines(), 1)
    (number,) = [number for number, line in lines if line.endswith(f"# {mark}")]
    return number


@pytest.mark.every(2)
@pytest.mark.parametrize("python", pythons())
def test_each_line_leaves_what_its_mark_says(python: str, tmp_path: Path) -> None:
    alive, out = TARGETS / "alive.py", tmp_path / "out"
    done = inside(python, "other", out, alive)
    assert (done.returncode, done.stdout, done.stderr) == (0, "14088\n", "")
    wanted, seen = marks(alive, python), rows(out.read_text(), alive)
    assert {line: seen.get(line, {}) for line in wanted} == wanted


# The two programs of memprof's article, in Python: a leak, and what a module leaves.
FIRST = """\
import collections, gc, itertools, soscope_mem
blah = collections.defaultdict(list)
soscope_mem.start()

for _ in itertools.repeat(None, 100):
    # as long as a literal is no new object
    blah[1].append("aaaaa" * len(blah) + "a")

for _ in itertools.repeat(None, 1000):
    # the same
    blah[2].append("bbbbb" * len(blah) + "b")

soscope_mem.stats()
gc.collect()
soscope_mem.stats("after")
soscope_mem.stop()
"""
SECOND = """\
import gc, soscope_mem
gc.disable()
soscope_mem.start()
import made
made.Text(bytes(1000))
soscope_mem.stats()
gc.collect()
soscope_mem.stats("after")
"""
MADE = """\
class Text:
    __slots__ = ("data", "own")
    def __init__(self, data):
        self.data = data
        self.own = self
"""


def article(python: str, text: str, folder: Path) -> tuple[str, str]:
    """Return what a program says before the collection, and behind it."""
    (folder / "test.py").write_text(text)
    (folder / "made.py").write_text(MADE)
    env = {"PYTHONPATH": packages(), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run([python, "test.py"], cwd=folder, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, (folder / "after").read_text()


@pytest.mark.parametrize("python", pythons())
def test_the_first_program_of_the_article(python: str, tmp_path: Path) -> None:
    test = tmp_path / "test.py"
    rows_there = ((1000, 11, "str"), (100, 7, "str"), (1, 7, "list"), (1, 11, "list"))
    wanted = "".join(f"{count:7d} {test}:{line}:{kind}\n" for count, line, kind in rows_there)
    assert article(python, FIRST, tmp_path) == (wanted, wanted)


@pytest.mark.parametrize("python", few_pythons())
def test_the_second_program_of_the_article(python: str, tmp_path: Path) -> None:
    before, after = article(python, SECOND, tmp_path)
    test, made = tmp_path / "test.py", tmp_path / "made.py"
    assert rows(before, test) == {5: {"Text": 1, "bytes": 1}}
    assert rows(after, test) == {}
    assert rows(before, made) == rows(after, made)
    assert rows(after, made)[1]["type"] == 1
    assert rows(after, made)[3] == {"function": 1}


@pytest.mark.parametrize("python", few_pythons())
def test_what_we_make_is_not_counted(python: str, tmp_path: Path) -> None:
    done = inside(python, "nothing", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "out").read_text()


@pytest.mark.parametrize("python", few_pythons())
def test_a_program_begins_and_ends_as_it_likes(python: str, tmp_path: Path) -> None:
    done = inside(python, "phases", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    ten, seven, three = (f":{line_of(mark)}:bytes" for mark in ("ten objects", "seven", "three"))
    said = [line.replace(str(INSIDE), "").split() for line in done.stdout.splitlines()]
    assert said == [
        ["10", ten],
        ["7", seven],
        ["3", three],
        ["True", "False", "True", "False", "True", "True"],
        *[["objects", "are", "not", "counted:", "call", "start()", "first"]] * 2,
    ]


@pytest.mark.parametrize("python", few_pythons())
def test_a_span_is_tracked(python: str, tmp_path: Path) -> None:
    done = inside(python, "tracks", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    call, span = line_of("tracked"), line_of("with")
    row = f"{INSIDE}:{call}:bytes"
    assert done.stdout.splitlines() == [
        f"      5 {row}",
        "5 tracked Doc.",
        f"      6 {INSIDE}:{span}:bytes",
        f"      2 {row}",
        "False",
        "'mine' False",
    ]
    assert rows((tmp_path / "out").read_text()) == {call: {"bytes": 2}, span: {"bytes": 6}}


SPANS = """
import asyncio, io, threading
import soscope_mem
texts, kept = [io.StringIO() for _ in range(4)], []
*ends, made = [threading.Event() for _ in range(3)]
@soscope_mem.track(texts[0])
def first():
    ends[0].wait()
@soscope_mem.track(texts[1])
def second():
    kept.extend(bytes(number) for number in range(300, 310))
    made.set()
    ends[1].wait()
threads = [threading.Thread(target=each) for each in (first, second)]
for each in threads:
    each.start()
made.wait()
for each, end in zip(threads, ends):  # the one that has begun first ends first
    end.set()
    each.join()
print(soscope_mem.stop())
@soscope_mem.track(texts[2])
async def later():
    await asyncio.sleep(0)
    kept.extend(bytes(number) for number in range(300, 320))
asyncio.run(later())
@soscope_mem.track(texts[3])
def some():
    for number in range(300, 330):
        yield bytes(number)
kept.extend(some())
traced = io.StringIO()
@soscope_mem.trace(traced)
async def reads():
    await asyncio.sleep(0)
    open(__file__).close()
asyncio.run(reads())
for text in texts:
    print([line.split()[0] for line in text.getvalue().splitlines() if ":bytes" in line])
print('"open"' in traced.getvalue() or '"close"' in traced.getvalue())
"""


@pytest.mark.parametrize("python", few_pythons())
def test_spans_end_as_they_like(python: str, tmp_path: Path) -> None:
    program = tmp_path / "spans.py"
    program.write_text(SPANS)
    done = run([python, program], env={"PYTHONPATH": packages()})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["False", "['10']", "['10']", "['20']", "['30']", "True"]


@pytest.mark.parametrize("many", [2, 16])
@pytest.mark.parametrize("python", few_pythons())
def test_threads(python: str, many: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = inside(python, "threads", out, str(many))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    made = line_of("a tuple")
    assert rows(out.read_text())[made]["tuple"] == many * 100


def check_family(out: Path) -> None:
    """See that parent and child have written what each has."""
    both, child, again, parent = map(line_of, ("both", "child", "again", "parent"))
    assert rows(out.read_text()) == {both: {"bytes": 10}, parent: {"bytes": 3}}
    assert rows(Path(f"{out}.child").read_text()) == {both: {"bytes": 6}, child: {"bytes": 5}}
    assert rows(Path(f"{out}.again").read_text()) == {again: {"bytes": 2}}


@pytest.mark.parametrize("python", few_pythons())
def test_a_child_has_an_account_of_its_own(python: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = inside(python, "fork", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")
    check_family(out)


@pytest.mark.parametrize("python", few_pythons())
def test_objects_that_are_older_are_not_counted(python: str, tmp_path: Path) -> None:
    done = inside(python, "older", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("python", few_pythons())
def test_garbage_is_alive_until_it_is_collected(python: str, tmp_path: Path) -> None:
    done = inside(python, "garbage", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"     50 {INSIDE}:{line_of('ring')}:list\n"
    assert not (tmp_path / "out").read_text()


@pytest.mark.covering(1)
@pytest.mark.parametrize("tracing", ["0", "5"])
@pytest.mark.parametrize("python", few_pythons())
def test_tracemalloc_sees_what_it_always_sees(python: str, tracing: str, tmp_path: Path) -> None:
    path, out, env = TARGETS / "tracing.py", tmp_path / "out", {"PYTHONTRACEMALLOC": tracing}
    plain = run([python, path], env=env)
    done = inside(python, "other", out, path, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    wanted, seen = marks(path, python), rows(out.read_text(), path)
    for line, kinds in wanted.items():
        assert {kind: seen[line][kind] for kind in kinds} == kinds


@contextlib.contextmanager
def waiting(python: str, way: str) -> Iterator[subprocess.Popen[str]]:
    """Run it until it waits for a line."""
    process = subprocess.Popen(
        [python, INSIDE, way, "/dev/null"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": packages()},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        yield process
    finally:
        if process.poll() is None:
            kill(process)


@pytest.mark.parametrize("python", few_pythons())
def test_soscope_does_not_count_beside_the_program(python: str) -> None:
    with waiting(python, "wait") as process:
        done = soscope("mem", "attach", "-p", str(process.pid))
        assert (done.returncode, "soscope_mem" in done.stderr) == (1, True)
        out, _ = process.communicate("\n", timeout=limit())
        assert rows(out)[line_of("ten objects, waiting")] == {"bytes": 10}


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons())
def test_a_program_begins_where_soscope_counts_already(python: str) -> None:
    with waiting(python, "late") as process:
        pid = str(process.pid)
        assert soscope("mem", "attach", "-q", "-p", pid).returncode == 0
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        said = "".join(iter(process.stdout.readline, "True\n"))
        assert rows(said)[line_of("own")] == {"bytes": 10}
        assert line_of("soscope's") not in rows(said)
        done = soscope("mem", "snapshot", "-p", pid, "--json")
        seen = counts(json.loads(done.stdout), str(INSIDE))
        assert (seen[line_of("own")], seen[line_of("soscope's")]) == ({"bytes": 10}, {"bytes": 6})
        assert "no longer counts" in soscope("detach", "-p", pid).stdout
        assert process.communicate("\n", timeout=limit())[0] == ""


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons())
def test_it_comes_and_goes_while_threads_work(python: str, tmp_path: Path) -> None:
    done = inside(python, "toggles", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    made = line_of("toggled")
    texts = [path.read_text() for path in tmp_path.iterdir()]
    assert [rows(text)[made]["bytes"] for text in texts] == [50] * 12


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons())
def test_soscope_and_the_program_count_at_once(python: str, tmp_path: Path) -> None:
    recording, out = tmp_path / "rec", tmp_path / "out"
    plain = inside(python, "phases", out)
    run_it = ("mem", "run", "--objects", "-o", recording, "--")
    done = soscope(*run_it, python, INSIDE, "phases", out)
    assert (done.returncode, done.stdout, besides_cost(done.stderr)) == (0, plain.stdout, "")
    seen = counts(report(recording), str(INSIDE))
    lines = map(line_of, ("ten objects", "seven", "unseen", "three"))
    assert [seen[line] for line in lines] == [{"bytes": count} for count in (10, 7, 4, 3)]


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("python", "flags"), [*((python, ()) for python in few_pythons()), (few_pythons()[0], ("-f",))]
)
def test_children_below_soscope(python: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = soscope("mem", "run", *flags, "-o", tmp_path / "rec", "--", python, INSIDE, "fork", out)
    assert (done.returncode, done.stdout, besides_cost(done.stderr)) == (0, "True True\n", "")
    check_family(out)


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons())
def test_programs_that_do_not_import_it_see_nothing(python: str, tmp_path: Path) -> None:
    text = """\
import os, sys
print(sys.path, sorted(os.environ.items()), "soscope_mem" in sys.modules)
try:
    import soscope_memory
except ImportError as error:
    print(error, error.__traceback__.tb_next)
"""
    words = [python, "-c", text]
    done = soscope("mem", "run", "--objects", "-o", tmp_path / "rec", "--", *words)
    assert (done.returncode, done.stdout) == (0, run(words).stdout)
    assert not besides_cost(done.stderr)
    isolated = [python, "-I", "-c", "import soscope_mem; print(soscope_mem.stop())"]
    done = soscope("mem", "run", "--objects", "-o", tmp_path / "rec", "--", *isolated)
    assert (done.returncode, done.stdout, besides_cost(done.stderr)) == (0, "False\n", "")


def test_lines_are_refused_where_soscope_counts_by_type(tmp_path: Path) -> None:
    words = [few_pythons()[0], "-c", "import soscope_mem; soscope_mem.start()"]
    done = soscope("mem", "run", "--mode", "count", "-o", tmp_path / "rec", "--", *words)
    assert done.returncode == 1
    assert "soscope has them counted by type alone" in done.stderr


def test_a_tracer_that_is_taken_away(tmp_path: Path) -> None:
    newest = pythons()[-1]
    if version(newest) < (3, 13):
        pytest.skip("no Python with a tracer of references")
    done = inside(newest, "taken", tmp_path / "out")
    assert done.stderr == ""
    assert (
        done.stdout
        == "objects cannot be counted: another tool has taken the interpreter's tracer\n"
    )


@pytest.mark.every(2)
@pytest.mark.parametrize("python", pythons()[:2])
def test_thousands_of_lines(python: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = inside(python, "lines", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    seen = rows(out.read_text(), Path("lines.py"))
    assert {line: seen.get(line) for line in range(1, 3001)} == {
        line: {"bytes": 1, "list": 1} for line in range(1, 3001)
    }


def test_without_an_agent(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE / "soscope_mem", tmp_path / "soscope_mem")
    text = "import soscope_mem; soscope_mem.start()"
    done = run([few_pythons()[0], "-c", text], env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "soscope_mem._agent.CountingError: there is no agent"
    )


def test_soscope_has_the_same_names() -> None:
    text = """\
import sys, soscope
assert "soscope_mem" not in sys.modules and "ctypes" not in sys.modules
import soscope_mem, soscope.mem
assert soscope.mem.__all__ == soscope_mem.__all__
for name in soscope.mem.__all__:
    assert getattr(soscope.mem, name) is getattr(soscope_mem, name)
"""
    done = run([sys.executable, "-c", text])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", files())
def test_the_packages_and_the_agent_know_what_soscope_knows(path: str) -> None:
    # else: python -m soscope.instruments.mem.inside .
    assert (REPOSITORY / path).read_text() == files()[path]


# What the package says where the agent has other tables than it has.
OTHER = """\
import io, json, soscope_mem
try:
    soscope_mem.start()
except soscope_mem.CountingError as error:
    print(error)
text = io.StringIO()
with soscope_mem.trace(text):
    kept = [bytearray(9) for _ in range(10)]
seen = json.loads(text.getvalue())
print(*seen["unseen"]["all"], *seen["unseen"]["objects"], seen["memory"], "objects" in seen)
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("is_below", [True, False])
@pytest.mark.parametrize("python", few_pythons())
def test_an_agent_of_another_version_is_not_asked(
    python: str, is_below: bool, tmp_path: Path
) -> None:
    shutil.copytree(Path(str(soscope_mem.__file__)).parent, tmp_path / "soscope_mem")
    table = tmp_path / "soscope_mem" / "_tables.py"
    text, count = re.subn(r"(?m)^FINGERPRINT = (\d+)$", r"FINGERPRINT = \1 ^ 1", table.read_text())
    assert count == 1
    table.write_text(text)
    (tmp_path / "soscope").symlink_to(Path(str(soscope_package.__file__)).parent)
    path = {"PYTHONPATH": str(tmp_path)}
    if is_below:
        words = ("mem", "run", "-q", "-o", tmp_path / "rec", "--", python, "-c", OTHER)
        done = soscope(*words, env={**os.environ, **path})
    else:
        done = run([python, "-c", OTHER], env=path)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    why = "of another version of soscope than soscope_mem is"
    assert first.endswith(why)
    assert second.count(why) == 2
    assert second.endswith(" {} False")
