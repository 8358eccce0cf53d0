# SPDX-License-Identifier: Apache-2.0
"""Calls of a private library are shown by a header of its own, as the program says they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import soscope
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.build import TARGETS, made_in

OWN = TARGETS / "own"  # they say of each call what it passed and got
HEADER = OWN / "own_types.h"
CHOICE = ("-e", "own_*@MAIN")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the program and its library without debug information."""
    need("gcc")
    path = tmp_path_factory.mktemp("own")
    build(path, "-g0", "-g0")
    return path


def build(path: Path, of_library: str, of_program: str) -> None:
    library, program = OWN / "lib_own_types.c", OWN / "own_types.c"
    for command in (
        f"gcc -O1 {of_library} -shared -fPIC {library} -o libown_types.so",
        f"gcc -O1 {of_program} {program} -o own_types -L. -lown_types -Wl,-rpath,$ORIGIN",
    ):
        made_in(path, *command.split())


def traced(folder: Path, *words: str | Path) -> tuple[list[str], str, list[str]]:
    """Return what the program said of its calls, the notes, and soscope's lines of them."""
    out = folder / "trace"
    done = run([*SOSCOPE, "trace", *CHOICE, "-s", "64", "-o", out, *words, folder / "own_types"])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr, lines_of(out.read_text(errors="surrogateescape"))


def lines_of(text: str) -> list[str]:
    calls = [line.partition("->")[2] for line in text.splitlines() if "->own_" in line]
    return [re.sub(r"\) += ", ") = ", line) for line in calls]


def test_a_header_says_all_of_it(folder: Path) -> None:
    said, _, shown = traced(folder, "-F", HEADER)
    assert len(said) == 24
    assert shown == said


def test_a_program_in_python_may_name_the_header(folder: Path) -> None:
    with soscope.trace(
        [str(folder / "own_types")], select="own_next@MAIN", prototypes=HEADER
    ) as of:
        (call, *_) = of
    assert [one.name for one in call.args] == ["c", "l"]
    assert call.args[0].type == "enum color"
    assert not call.args[0].guess


def test_a_recording_keeps_the_header(folder: Path) -> None:
    header = folder / "copy.h"
    header.write_text(HEADER.read_text())
    recording = folder / "own.sosr"
    words: list[str | Path] = ["--prototypes", header, "--record", recording]
    done = run([*SOSCOPE, "trace", *CHOICE, *words, folder / "own_types"])
    assert done.returncode == 0, done.stderr
    header.unlink()
    report = run([*SOSCOPE, "report", "-s", "64", recording])
    assert lines_of(report.stdout) == done.stdout.splitlines()


def test_report_takes_another_one(folder: Path) -> None:
    recording, header = folder / "other.sosr", folder / "other.h"
    done = run([*SOSCOPE, "trace", *CHOICE, "--record", recording, folder / "own_types"])
    assert done.returncode == 0, done.stderr
    header.write_text("typedef enum { GREEN = 5, BLUE } own; own own_next(own c, long l HEX);")
    report = run([*SOSCOPE, "report", "-F", header, recording])
    assert "own_next(GREEN, 0x1) = BLUE" in lines_of(report.stdout)


def test_a_fault_in_a_header_is_said_before_the_program_runs(folder: Path) -> None:
    header = folder / "faulty.h"
    header.write_text("int own_nothing(void);\nfoo_t own_sum(int a);\n")
    done = run([*SOSCOPE, "trace", "-F", header, folder / "own_types"])
    assert done.returncode == 125
    assert done.stdout == ""
    assert f"{header}:2: type 'foo_t' of 'own_sum' is not known\n" in done.stderr
    done = run([*SOSCOPE, "trace", "-F", folder / "none.h", folder / "own_types"])
    assert (done.returncode, done.stdout) == (125, "")
    assert "none.h: no such file or directory" in done.stderr


def test_injected_results_are_shown_by_it(folder: Path) -> None:
    rule = "inject=own_next:retval=6:when=1"
    done = run([*SOSCOPE, "inject", "-F", HEADER, "-e", rule, folder / "own_types"])
    assert "own_next(GREEN, HIGH) = BLUE" in lines_of(done.stderr)[0]
    done = run([*SOSCOPE, "inject", "-F", HEADER, "-e", "inject=own_mix:retval=6", "true"])
    assert done.returncode == 125
    assert "own_mix' returns a struct, which cannot be injected" in done.stderr


CONF = """\
; of a library of one's own
typedef color = enum(RED, GREEN=5, BLUE);
typedef level = enum(LOW=-1, HIGH=1);
color own_next(color, level);
string own_name(string, int);
double own_many(double, double, double, double, double, double, double, double, double, float);
long own_sum(int, int, int, int, int, int, int, short, double, float, long, int, char, int);
void own_nothing();
double own_apply(addr, double, addr);
int close(int, int);
"""
OF_CONF = ("own_next", "own_name", "own_many", "own_sum", "own_nothing", "own_apply")


def test_ltraces_own_language(folder: Path) -> None:
    conf = folder / "own.conf"
    conf.write_text(CONF)
    said, _, shown = traced(folder, "-F", conf)
    of_conf = [line for line in said if line.startswith(OF_CONF)]
    assert len(of_conf) == 8
    assert [line for line in shown if line.startswith(OF_CONF)] == of_conf
    conf.write_text("int own_next(int);\nint own_sum(nothing);\n")
    done = run([*SOSCOPE, "trace", "-F", conf, folder / "own_types"])
    assert (done.returncode, done.stdout) == (125, "")
    assert f"{conf}:2: type 'nothing' is not known" in done.stderr


def test_ltraces_file_at_home_is_read_quietly(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    (folder / ".ltrace.conf").write_text(CONF + "int own_few(nothing);\n")
    said, notes, shown = traced(folder)
    of_conf = [line for line in said if line.startswith(OF_CONF)]
    assert [line for line in shown if line.startswith(OF_CONF)] == of_conf
    assert ".ltrace.conf:11: type 'nothing' is not known" in notes
    # a header of the user's counts before it
    _, _, shown = traced(folder, "-F", HEADER)
    assert "own_allow(READ|EXEC) = 13" in shown
    (folder / ".ltrace.conf").unlink()
