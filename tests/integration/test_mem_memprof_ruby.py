# SPDX-License-Identifier: Apache-2.0
"""`require "memprof"` in Ruby programs: the article's, and what they may ask for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import soscope as package
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.matrix import REPOSITORY
from tests.support.targets.survivors import TARGETS, report, soscope

pytestmark = pytest.mark.shares

ALIVE, ASKED = TARGETS / "alive.rb", TARGETS / "asked.rb"
GEM = REPOSITORY / "integrations" / "ruby"
ROW = re.compile(r"((?=.{6}\d ) *\d+|\d{8,}) (.*):(\d+):(.*)")  # "%7d %s:%d:%s"

# The programs of memprof's article, as they stand there.
ARTICLE = """\
require 'memprof'

@blah = Hash.new([])

Memprof.start
100.times {
  @blah[1] << "aaaaa"
}

1000.times {
  @blah[2] << "bbbbb"
}
Memprof.stats
Memprof.stop
"""
ARTICLE2 = """\
require 'memprof'
Memprof.start
require "stringio"
StringIO.new
Memprof.stats
"""
AFTER = """\
GC.start
Memprof.stats
"""
Rows = dict[tuple[str, int, str], int]


@pytest.fixture(scope="module")
def ruby() -> str:
    return need("ruby")


def mem_run(
    folder: Path, *words: str | os.PathLike[str], **how: object
) -> subprocess.CompletedProcess[str]:
    return soscope("mem", "run", "-q", "-o", folder / "rec", *words, cwd=folder, **how)


def ask(ruby: str, folder: Path, text: str, *options: str) -> str:
    """Return what a program prints that may ask for its objects."""
    (folder / "ask.rb").write_text(text)
    done = mem_run(folder, *options, "--", ruby, "--disable-gems", "ask.rb")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows(text: str) -> Rows:
    """Return the lines of one `stats`, which have its form and order."""
    matches = [ROW.fullmatch(line) for line in text.splitlines()]
    parsed = [(int(m[1]), m[2], int(m[3]), m[4]) for m in matches if m]
    assert len(parsed) == len(text.splitlines()), text
    assert parsed == sorted(parsed, key=lambda row: (-row[0], *row[1:]))
    counted = {(file, line, name): count for count, file, line, name in parsed}
    assert len(counted) == len(parsed)
    return counted


def kept(text: str) -> dict[int, int]:
    """Return how many objects of class Kept each line has left."""
    return {line: count for (_, line, name), count in rows(text).items() if name == "Kept"}


def objects(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a dump."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def place(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["file"], row["line"], row["class_name"]


@pytest.mark.every(2)
@pytest.mark.parametrize("collect", [False, True])
def test_the_articles_first_program(ruby: str, collect: bool, tmp_path: Path) -> None:
    stats = "Memprof.stats\n"
    text = ARTICLE.replace(stats, AFTER) if collect else ARTICLE
    (tmp_path / "test.rb").write_text(text)
    done = mem_run(tmp_path, "--", ruby, "test.rb")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["   1000 test.rb:11:String", "    100 test.rb:7:String"]
    assert {name for _, _, name in rows(done.stdout)} == {"String", "__imemo__"}


@pytest.mark.every(2)
@pytest.mark.parametrize("words", [(), ("--disable-gems",)])
def test_the_articles_second_program(ruby: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "test2.rb").write_text(ARTICLE2)
    first = mem_run(tmp_path, "--", ruby, *words, "test2.rb")
    (tmp_path / "test2.rb").write_text(ARTICLE2.replace("Memprof.stats\n", AFTER))
    second = mem_run(tmp_path, "--", ruby, *words, "test2.rb")
    assert (first.returncode, second.returncode) == (0, 0)
    before, after = rows(first.stdout), rows(second.stdout)
    assert before["test2.rb", 4, "StringIO"] == 1
    assert sum(after.values()) < sum(before.values())
    for counted in (before, after):
        made = {(line, name) for file, line, name in counted if file.endswith("/stringio.so")}
        assert {(0, "__imemo__"), (0, "Class"), (0, "Module")} <= made


def test_each_line_is_what_objectspace_says(ruby: str, tmp_path: Path) -> None:
    done = mem_run(tmp_path, "--", ruby, ASKED, "stats", "truth", ALIVE)
    assert (done.returncode, done.stderr) == (0, "")
    own, truth = (rows((tmp_path / name).read_text()) for name in ("stats", "truth"))
    files = {str(ALIVE), "made.rb"}
    wanted = {key: count for key, count in truth.items() if key[0] in files and key[1]}
    assert len(wanted) > 50
    seen = {key: count for key, count in own.items() if key[0] in files and key[1]}
    assert {key: n for key, n in seen.items() if not re.match("__", key[2])} == wanted
    assert not any("memprof.rb" in file for file, _, _ in own)


def test_what_it_returns_and_raises_is_memprofs(ruby: str, tmp_path: Path) -> None:
    said = ask(
        ruby,
        tmp_path,
        """\
require "memprof"
class Kept; end
p Memprof.stop
begin; Memprof.stats; rescue RuntimeError => error; puts error.message; end
p Memprof.start, Memprof.start, Memprof.stats("s"), Memprof.stop, Memprof.stop
begin
  Memprof.track("t") { raise IOError, "out" }
rescue IOError => error
  p error.message, File.exist?("t"), Memprof.stop
end
p Memprof.track("t") { $kept = Kept.new }, Memprof.stop
begin; Memprof.track; rescue ArgumentError => error; puts error.message; end
begin; Memprof.track("/none/x") { }; rescue ArgumentError => error; puts error.message; end
p Memprof.stop
""",
    )
    assert said.splitlines()[:4] == [
        "false",
        "object tracking disabled, call Memprof.start first",
        "true",
        "false",
    ]
    assert said.splitlines()[4:-2] == [
        *("nil", "true", "false", '"out"', "false", "false", "nil", "false"),
        "block required",
    ]
    assert said.splitlines()[-2].startswith("unable to open output file: No such file")
    assert said.splitlines()[-1] == "false"
    assert kept((tmp_path / "t").read_text()) == {11: 1}


def test_spans_end_as_they_like(ruby: str, tmp_path: Path) -> None:
    said = ask(
        ruby,
        tmp_path,
        """\
require "memprof"
class Kept; end
on, off = Queue.new, [Queue.new, Queue.new]
first = Thread.new { Memprof.track("first") { on << 1; off[0].pop } }
on.pop
two = Thread.new { Memprof.dump("two") { $two = Array.new(3) { Kept.new }; on << 1; off[1].pop } }
on.pop
off[0] << 1  # the one that has begun first ends first
first.join
$late = Array.new(4) { Kept.new }
off[1] << 1
two.join
p Memprof.stop
Memprof.start
$outer = Array.new(5) { Kept.new }
Memprof.track("inner") { Memprof.track("inmost") { $inner = Array.new(6) { Kept.new } } }
begin
  Memprof.track("never") { raise IOError, "out" }
rescue IOError
  $rest = Array.new(7) { Kept.new }
end
Memprof.stats("outer")
p Memprof.stop
trap("USR1") { Memprof.track("handler") { $handled = Array.new(8) { Kept.new } } }
Memprof.track("around") { Process.kill("USR1", $$); sleep 0.01 until $handled }
p Memprof.stop
started, wait = Queue.new, Queue.new
other = Thread.new { Memprof.track("other") { started << 1; wait.pop } }
started.pop
Process.wait(fork { Memprof.track("child") { $child = Array.new(9) { Kept.new } }; p Memprof.stop })
wait << 1
other.join
p Memprof.stop
""",
        "-f",
    )
    assert said.splitlines() == ["false", "true", "false", "false", "false"]
    written = {name: kept((tmp_path / name).read_text()) for name in ("first", "inner", "inmost")}
    assert written == {"first": {6: 3}, "inner": {15: 5, 16: 6}, "inmost": {15: 5, 16: 6}}
    dumped = [json.loads(line) for line in (tmp_path / "two").read_text().splitlines()]
    lines = Counter(each["line"] for each in dumped if each["class_name"] == "Kept")
    assert lines == {6: 3, 10: 4}
    assert kept((tmp_path / "outer").read_text()) == {15: 5, 16: 6, 20: 7}
    assert kept((tmp_path / "handler").read_text()) == {24: 8}
    assert kept((tmp_path / "around").read_text()) == {24: 8}
    assert kept((tmp_path / "child").read_text()) == {30: 9}
    assert kept((tmp_path / "other").read_text()) == {}
    assert not (tmp_path / "never").exists()


def test_what_was_printed_is_forgotten_only_by_stats_with_a_bang(ruby: str, tmp_path: Path) -> None:
    ask(
        ruby,
        tmp_path,
        """\
require "memprof"
class Kept; end
$old = Array.new(5) { Kept.new }
Memprof.start
$new = Array.new(6) { Kept.new }
Memprof.stats("first")
Memprof.stats!("second")
$newer = Array.new(7) { Kept.new }
Memprof.stats("third")
$new = nil
$newer.slice!(0, 3)
GC.start
Memprof.stats("fourth")
Memprof.stop
$newest = Array.new(8) { Kept.new }
Memprof.start
Memprof.stats("last")
""",
    )
    names = ("first", "second", "third", "fourth", "last")
    texts = [(tmp_path / name).read_text() for name in names]
    assert {file for text in texts for file, _, _ in rows(text)} == {"ask.rb"}
    assert list(map(kept, texts[:3])) == [{5: 6}, {5: 6}, {8: 7}]
    assert 4 <= kept(texts[3])[8] <= 5  # one may lie on the stack
    assert kept(texts[4]) == {}


def test_collections_compaction_and_threads(ruby: str, tmp_path: Path) -> None:
    ask(
        ruby,
        tmp_path,
        """\
require "memprof"
class Kept; end
holes = Array.new(5000) { Object.new }
Memprof.start
makers = 4.times.map { Thread.new { Array.new(500) { Kept.new } } }
$kept = makers.map(&:value)
holes = nil
GC.compact
GC.stress = true
Memprof.stats("stressed")
GC.stress = false
stop = false
other = Thread.new { "busy" + "busy" until stop }
20.times { Memprof.stats("again") }
stop = true
other.join
""",
    )
    stressed, again = (kept((tmp_path / name).read_text()) for name in ("stressed", "again"))
    assert stressed == again == {5: 2000}


def test_a_dump_has_an_object_a_line(ruby: str, tmp_path: Path) -> None:
    said = ask(
        ruby,
        tmp_path,
        """\
require "memprof"
class Kept; attr_accessor :held; end
$old = Kept.new
Memprof.start
$new = Array.new(5) { Kept.new }
$new[0].held = "te\\"xt" * 2
$odd = eval("Kept.new", nil, "od\\"d\\n\u00e9.rb", 7)
Memprof.stats("stats")
Memprof.dump("dump")
Memprof.dump_all("all")
Memprof.stop
begin; Memprof.dump; rescue RuntimeError => error; puts error.message; end
p Memprof.dump("block") { $block = Kept.new; 55 }, Memprof.stop
begin; Memprof.dump_all("/none/x"); rescue ArgumentError => error; puts error.message; end
puts ObjectSpace.each_object(Kept).count
Memprof.start
$printed = Kept.new
Memprof.dump
""",
    ).splitlines()
    assert said[:3] == ["object tracking disabled, call Memprof.start first", "55", "false"]
    assert said[3].startswith("unable to open output file")
    dump, everything, block = (objects(tmp_path / name) for name in ("dump", "all", "block"))
    stats = rows((tmp_path / "stats").read_text().replace('"d\n', '"d '))
    lines = Counter(place(row) for row in dump)
    assert stats["ask.rb", 5, "Kept"] == lines["ask.rb", 5, "Kept"] == 5
    assert lines['od"d\n\u00e9.rb', 7, "Kept"] == 1
    old = {key for key in lines if key[0] == "ask.rb" and key[1] < 8}
    assert {key: lines[key] for key in old} == {
        key: count for key, count in stats.items() if key[0] == "ask.rb" and key[1] < 8
    }
    (text,) = (row for row in dump if row.get("value") == 'te"xtte"xt')
    (holder,) = (row for row in dump if text["address"] in row.get("references", []))
    assert (holder["class_name"], holder["line"], text["line"]) == ("Kept", 5, 6)
    assert Counter(place(row) for row in everything if row.get("class_name") == "Kept") == {
        ("ask.rb", 3, "Kept"): 1,
        ("ask.rb", 5, "Kept"): 5,
        ('od"d\n\u00e9.rb', 7, "Kept"): 1,
    }
    assert {row["root"] for row in everything if row["type"] == "ROOT"} >= {"vm", "machine_context"}
    assert [place(row) for row in block if row["class_name"] == "Kept"] == [("ask.rb", 13, "Kept")]
    assert said[4] == "8"
    printed = Counter(place(json.loads(line)) for line in said[5:])
    assert printed["ask.rb", 17, "Kept"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("all", "ask.rb", "block", "dump", "rec", "stats")
    ]


@pytest.mark.every(2)
@pytest.mark.parametrize("options", [(), ("-f",)])
def test_a_child_goes_on_with_its_parents_objects(
    ruby: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    said = ask(
        ruby,
        tmp_path,
        """\
require "memprof"
class Kept; end
before = fork do
  100_000.times { "x" * 9 }
  Memprof.start
  $kept = Array.new(9) { Kept.new }
  Memprof.stats("late")
end
Memprof.start
$kept = Array.new(4) { Kept.new }
child = fork do
  $own = Array.new(3) { Kept.new }
  100_000.times { "x" * 9 }
  Memprof.stats("child")
end
[before, child].each { |pid| p Process.wait2(pid)[1].success? }
Memprof.stats("parent")
""",
        *options,
    )
    assert said == "true\ntrue\n"
    counted = [kept((tmp_path / name).read_text()) for name in ("late", "child", "parent")]
    assert counted == [{6: 9}, {10: 4, 12: 3}, {10: 4}]


# A child that is not followed hears nothing of the ends of its parent's classes.
NAMELESS = """\
require "memprof"
class Kept; end
2000.times { Class.new { def initialize = @value = 1 }.new }
GC.disable
child = fork do
  GC.enable
  3.times { GC.start }
  $filled = Array.new(20_000) { |number| "a string of its own: #{number}" }
  Memprof.start
  $kept = Array.new(9) { Kept.new }
  Memprof.stats("child")
end
p Process.wait2(child)[1].success?
$stdout.flush
exit!(0)
"""


def test_classes_that_end_before_a_child_counts(ruby: str, tmp_path: Path) -> None:
    assert ask(ruby, tmp_path, NAMELESS) == "true\n"
    assert kept((tmp_path / "child").read_text()) == {10: 9}


def test_what_cannot_be_counted_is_refused_with_a_reason(ruby: str, tmp_path: Path) -> None:
    text = """\
require "memprof"
def say; yield; rescue Memprof::Unsupported => error; puts error.message; end
say { Memprof.start }
"""
    assert "by line: run it" in ask(ruby, tmp_path, text, "--mode", "count")
    plain = run([ruby, "-I", GEM / "lib", "ask.rb"], cwd=tmp_path)
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "run it under `soscope mem run -- ruby ...`" in plain.stdout
    text += """\
Warning[:experimental] = false
Ractor.new { 1 }
say { Memprof.stats }
p Memprof.stop
say { Memprof.start }
"""
    why, stopped, again = ask(ruby, tmp_path, text).splitlines()
    assert (why, stopped) == (again, "true")
    assert "Ractors" in why


def test_a_program_that_does_not_ask_sees_one_more_folder(ruby: str, tmp_path: Path) -> None:
    (tmp_path / "look.rb").write_text(
        "p $LOAD_PATH\n"
        "p $LOADED_FEATURES, ENV.to_h, Object.constants, global_variables.sort\n"
        "p ObjectSpace.each_object(Module).map(&:to_s).grep_v(/0x/).sort\n"
    )
    plain = run([ruby, "look.rb"], cwd=tmp_path).stdout.splitlines()
    counted = mem_run(tmp_path, "--", ruby, "look.rb").stdout.splitlines()
    assert counted[1:] == plain[1:]
    folders, more = json.loads(plain[0]), json.loads(counted[0])
    assert more[:-1] == folders
    assert sorted(os.listdir(more[-1])) == ["memprof", "memprof.rb", "soscope_memprof.rb"]


def test_a_file_of_the_programs_own_comes_first(ruby: str, tmp_path: Path) -> None:
    (tmp_path / "memprof.rb").write_text("puts 'mine'\n")
    (tmp_path / "main.rb").write_text("require 'memprof'\np defined?(Memprof)\n")
    done = mem_run(tmp_path, "--", ruby, "-I", tmp_path, "main.rb")
    assert (done.returncode, done.stdout) == (0, "mine\nnil\n")


def test_the_gem_is_built_and_used(ruby: str, tmp_path: Path) -> None:
    gem = need("gem")
    source = shutil.copytree(GEM, tmp_path / "source")
    built = run([gem, "build", "soscope.gemspec"], cwd=source)
    assert built.returncode == 0, built.stderr
    name = f"soscope-{package.__version__}.gem"
    home = tmp_path / "gems"
    words = ("install", "--local", "--no-document", "--install-dir")
    assert run([gem, *words, home, source / name], cwd=tmp_path).returncode == 0
    (tmp_path / "main.rb").write_text(
        "gem 'soscope'\nrequire 'memprof'\nMemprof.start\n$kept = Object.new\nMemprof.stats\n"
        "puts $LOADED_FEATURES.grep(/.memprof.rb/).grep_v(/soscope_memprof/)\n"
    )
    done = mem_run(tmp_path, "--", ruby, "main.rb", env={**os.environ, "GEM_PATH": str(home)})
    assert (done.returncode, done.stderr) == (0, "")
    *lines, file = done.stdout.splitlines()
    assert file == str(home / "gems" / name.removesuffix(".gem") / "lib" / "memprof.rb")
    assert rows("\n".join(lines))["main.rb", 4, "Object"] == 1
    document = report(tmp_path / "rec")
    assert not [row for row in document["survivors"] if "memprof.rb" in str(row["file"])]


def test_an_agent_of_another_version_is_not_asked(tmp_path: Path) -> None:
    ruby = need("ruby")
    library = Path(str(package.__file__)).parent / "_agent"
    shutil.copytree(library / "ruby", tmp_path / "ruby")
    (tmp_path / "ruby" / "soscope_memprof.rb").unlink()  # the agent's own, which a gem lacks
    (tmp_path / "libsoscope-agent.so").symlink_to(library / "libsoscope-agent.so")
    tables = tmp_path / "ruby" / "memprof" / "tables.rb"
    text, count = re.subn(r"FINGERPRINT = (?=\d)", "FINGERPRINT = 1 ^ ", tables.read_text())
    assert count == 1
    tables.write_text(text)
    text = """\
require "memprof"
begin
  Memprof.start
rescue Memprof::Unsupported => error
  puts error.message
end
Memprof.trace { $stderr.flush }
"""
    words = [ruby, "-I", str(tmp_path / "ruby"), "-e", text]
    below = mem_run(tmp_path, "--", *words)
    alone = run(words)
    why = "of another version of soscope than this library is"
    for done in (below, alone):
        assert (done.returncode, done.stderr) == (0, "")
    said, traced = below.stdout.splitlines()
    assert said.endswith(why)
    seen = json.loads(traced)
    assert [each.endswith(why) for each in seen["unseen"]["all"]] == [True]
    assert seen["memory"] == seen["fd"] == {}
    assert why in json.loads(alone.stdout.splitlines()[-1])["unseen"]["all"].popitem()[0]
