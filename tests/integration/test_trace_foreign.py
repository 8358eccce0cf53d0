# SPDX-License-Identifier: Apache-2.0
"""Programs for other processors: what soscope sees, against what they count themselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machines.crossed import TRIPLETS, account, counted, program, sysroot, untraced
from tests.support.processes.run import kill, soscope
from tests.support.processes.tracing import is_whole
from tests.support.schemas.checked import LINES
from tests.support.time.patience import limit, until
from tests.support.time.progress import state

pytestmark = pytest.mark.shares

KINDS = {
    "lazy": ("-Wl,-z,lazy",),
    "now": ("-Wl,-z,now", "-s"),
    "unseen": (),
}
PROTOTYPES = """
int add(int a, int b);
long eight(long a, long b, long c, long d, long e, long f, long g, long h);
double half(int before, double x, long behind);
int again(int n, void *more);
const char *text(const char *what);
int callback(int n);
"""
PLAIN = """\
crossed->add(0, 10) = 10
crossed->add(1, 10) = 11
crossed->add(2, 10) = 12
crossed->eight(1, 2, 3, 4, 5, 6, -7, 1073741824) = 1073741838
crossed->half(1, 5, 2) = 1.5
crossed->again(3, ADDRESS <unfinished ...>
crossed->again(2, ADDRESS <unfinished ...>
crossed->again(1, ADDRESS <unfinished ...>
crossed->again(0, ADDRESS) = 0
<... again resumed> ) = 1
<... again resumed> ) = 2
<... again resumed> ) = 3
crossed->text("some text") = "ome text"
crossed->text("words -5 2.50 end") = "ords -5 2.50 end"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the programs of this module are built."""
    return tmp_path_factory.mktemp("crossed")


def _built(folder: Path, arch: str, kind: str = "lazy") -> Path:
    place = folder / f"{arch}-{kind}"
    if not place.exists():
        place.mkdir()
        program(place, arch, *KINDS[kind], unseen=kind == "unseen")
    return place / "crossed"


# test_foreign_values.py has values of each machine
@pytest.mark.every(2)
@pytest.mark.parametrize("arch", ["ppc64le", "i386", "ppc"])
def test_arguments_and_results(folder: Path, tmp_path: Path, arch: str) -> None:
    path = _built(folder, arch)
    header, log = tmp_path / "own.h", tmp_path / "log"
    header.write_text(PROTOTYPES)
    select = "add+eight+half+again+text+snprintf@MAIN"
    done = soscope(
        "trace",
        "-o",
        log,
        "-F",
        header,
        "-e",
        select,
        "--sysroot",
        sysroot(arch),
        "--",
        path,
        "plain",
    )
    plain = untraced(path, arch, "plain")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (7, "done\n")
    assert account(done.stderr) == account(plain.stderr)
    lines = re.sub(r"0x[0-9a-f]+", "ADDRESS", log.read_text())
    lines = re.sub(r" +=", " =", lines)
    head, snprintf, tail = lines.partition("crossed->snprintf(")
    shown, _, after = tail.partition("\n")
    assert head + after.partition("+++")[0] == PLAIN
    assert '32, "%s %d %.2f %s", "words", -5, 2.5, "end")' in shown
    assert snprintf
    assert "1 call" not in done.stderr
    assert is_whole(done.stderr.splitlines()[-1])


@pytest.mark.every(5)
@pytest.mark.parametrize("arch", TRIPLETS)
def test_counts_are_the_programs_own(folder: Path, tmp_path: Path, arch: str) -> None:
    path = _built(folder, arch, "now")
    found = counted(path, arch, tmp_path / "log", "plain", "jumps", "plugins", "signals")
    document = found["document"]
    assert isinstance(document, dict)
    rows: dict[str, int] = {}
    for row in document["rows"]:
        rows[row["symbol"]] = rows.get(row["symbol"], 0) + row["calls"]
    assert rows == found["account"]
    engine = "slot" if arch.startswith("mips") else "poison"
    assert (document["arch"], document["engine"]) == (arch, engine)
    assert document["totals"]["complete"]


def test_lazy_slots_of_what_is_loaded_later(folder: Path, tmp_path: Path) -> None:
    path = _built(folder, "ppc64le")
    found = counted(path, "ppc64le", tmp_path / "log", "plugins", "jumps")
    document = found["document"]
    assert isinstance(document, dict)
    rows = {(row["caller"], row["symbol"]): row["calls"] for row in document["rows"]}
    assert rows == {
        ("libplugin.so", "add"): 8,
        ("libplugin.so", "callback"): 2,
        ("crossed", "again"): 1,
        ("crossed", "add"): 1,
    }
    assert found["account"] == {"add": 9, "callback": 2, "again": 1}


def test_slots_that_are_code(folder: Path, tmp_path: Path) -> None:
    """PowerPC's older PLT: the loader writes branches into it, when it first needs each."""
    path = _built(folder, "ppc", "unseen")
    found = counted(path, "ppc", tmp_path / "log", "plain", "jumps", "plugins", "signals")
    document = found["document"]
    assert isinstance(document, dict)
    rows: dict[str, int] = {}
    for row in document["rows"]:
        rows[row["symbol"]] = rows.get(row["symbol"], 0) + row["calls"]
    assert rows == found["account"]
    assert document["totals"]["complete"]


def _json(path: Path, log: Path, *words: str) -> tuple[list[dict[str, object]], str]:
    names = "add,callback"
    done = soscope("trace", "--json", "-o", log, "-e", names, "--", path, *words)
    plain = untraced(path, "ppc64le", *words)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert account(done.stderr) == account(plain.stderr)
    return [json.loads(line) for line in log.read_text().splitlines()], done.stderr


def test_children_run_untouched(folder: Path, tmp_path: Path) -> None:
    lines, notes = _json(_built(folder, "ppc64le"), tmp_path / "log", "forks", "signals")
    assert lines[0]["arch"] == "ppc64le"
    assert lines[0]["engine"] == "poison"
    assert set(lines[0]) == {*LINES["process"]}
    calls = [line["symbol"] for line in lines if "args" in line]
    assert calls == ["add", "callback", "add"]
    assert [line["signal"] for line in lines if line["type"] == "signal"] == ["SIGUSR1"]
    assert "calls of forked children were not seen" in notes


def test_a_second_thread_is_seen(folder: Path, tmp_path: Path) -> None:
    lines, notes = _json(_built(folder, "ppc64le"), tmp_path / "log", "threads")
    calls = [(line["symbol"], line["tid"]) for line in lines if line["type"] == "call"]
    assert [symbol for symbol, _ in calls] == ["add", "add", "callback", "add"]
    first, second = calls[0][1], calls[1][1]
    assert [tid for _, tid in calls] == [first, second, second, first]
    assert "not complete" not in notes.splitlines()[-1]


def test_its_signal_becomes_ours(folder: Path) -> None:
    path = _built(folder, "ppc64le")
    done = soscope("trace", "-e", "raise", "--", path, "dies")
    assert done.returncode == -11
    assert "--- SIGSEGV" in done.stderr
    assert "+++ killed by SIGSEGV +++" in done.stderr


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", ["ppc64le", "arm", "s390x"])
def test_flags_have_their_names(folder: Path, arch: str) -> None:
    path = _built(folder, arch)
    done = soscope("trace", "-e", "open", "--", path, "opens")
    assert 'open("/", O_RDONLY|O_DIRECTORY|O_NOFOLLOW)' in done.stderr


def test_other_ends_become_ours(folder: Path) -> None:
    path = _built(folder, "ppc64le")
    done = soscope("trace", "-e", "add", "--", path, "killed")
    assert done.returncode == -9
    assert "+++ killed by SIGKILL +++" in done.stderr


# It stops soscope until it has ended itself.
_UNSEEN = """
me=$$
kill -STOP $PPID
(until grep -q 'State:.Z' /proc/$me/status; do :; done; kill -CONT $PPID) >/dev/null 2>&1 &
"""


@pytest.mark.parametrize("first", ["", _UNSEEN], ids=["alive", "ended"])
def test_another_program_is_executed(folder: Path, first: str) -> None:
    """Whether or not it still runs when soscope looks at it."""
    path = _built(folder, "ppc64le")
    done = soscope("trace", "-e", "add", "--", path, "forks", "execs", env={"FIRST": first})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, "executed"), done.stderr
    assert "has executed another program" in done.stderr
    assert "not complete" in done.stderr.splitlines()[-1]


def test_faults_of_its_own(folder: Path, tmp_path: Path) -> None:
    """Their handler calls functions, and is there for the next fault."""
    lines, notes = _json(_built(folder, "ppc64le"), tmp_path / "log", "catches", "returns")
    calls = [line["symbol"] for line in lines if "args" in line]
    assert calls == ["add", "add", "add"]
    signals = [line["signal"] for line in lines if line["type"] == "signal"]
    assert signals == ["SIGSEGV"] * 4
    assert "calls in handlers of SIGSEGV were not seen" in notes


def test_it_closes_all_descriptors(folder: Path, tmp_path: Path) -> None:
    """The stub's is one of them: it is let go before."""
    words = ("signals", "closes", "plain", "threads")
    lines, notes = _json(_built(folder, "ppc64le"), tmp_path / "log", *words)
    assert [line["symbol"] for line in lines if "args" in line] == ["callback", "add"]
    assert "the program was about to close the stub's descriptor" in notes
    assert "not complete" in notes.splitlines()[-1]


def test_it_dies_with_soscope(folder: Path) -> None:
    """Its slots lead nowhere without soscope."""
    path = _built(folder, "ppc64le")
    words = [sys.executable, "-m", "soscope", "trace", "-q", "--", str(path), "plain", "waits"]
    tracer = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert tracer.stderr is not None
        while "snprintf" not in (line := tracer.stderr.readline()):
            assert line
        (child,) = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()[:1]
        tracer.kill()
        tracer.wait(limit())
        until(lambda: state(int(child)) in ("", "Z", "X"), "it ends")
    finally:
        kill(tracer)


def test_what_does_not_fit_is_said(folder: Path, tmp_path: Path) -> None:
    path = _built(folder, "ppc64le")

    def refused(*words: str | Path) -> str:
        done = soscope("trace", *words)
        assert done.returncode == 125
        assert done.stdout == ""
        return done.stderr

    other = refused("--sysroot", sysroot("aarch64"), "--", path)
    assert "has no /lib64/ld64.so.2" in other
    native = refused("--sysroot", sysroot("aarch64"), "--", "/bin/true")
    assert "cannot emulate '/bin/true': it is for x86-64, as this machine is" in native
    assert "leave out --sysroot" in native
    assert "there is no such directory" in refused("--sysroot", tmp_path / "none", "--", path)
    assert "qemu-none, which runs programs of ppc64le, is not installed" in refused(
        "--qemu", "qemu-none", "--", path
    )
    early = refused("--qemu", "/bin/true", "--", path)
    assert "has not opened its stub, and has ended with status 0" in early
    switched = refused("--on", "add", "--", path)
    assert "--on, --off or --toggle: not for programs of another architecture" in switched
    children = refused("-f", "--", path)
    assert "-f: not for programs of another architecture" in children
    assert "their emulator's stub tells of one process" in children


@pytest.mark.parametrize("arch", ["aarch64", "ppc"])
def test_children_of_calls_that_no_slot_shows(folder: Path, tmp_path: Path, arch: str) -> None:
    """The child has the slots of the libraries, and nobody to send it on from them."""
    path = _built(folder, arch, "unseen")
    found = counted(path, arch, tmp_path / "log", "forks", "threads")
    assert found["account"] == {"add": 4, "callback": 1}
