# SPDX-License-Identifier: Apache-2.0
"""Profiles for gprof, as the gprof of this machine reads them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from soscope.export.gmon import GmonFiles, export_files, gprof_line
from soscope.instruments.prof.model import NOBODY, ProfArc, ProfFunction, Profile, ProfSums
from tests.support.files import profiles
from tests.support.machines.tools import need
from tests.support.processes.run import run

_FLAT = re.compile(r" *([\d.]+) +([\d.]+) +([\d.]+) +(?:(\d+) +[\d.]+ +[\d.]+ +)?(\S+)$")
_PARENT = re.compile(r" +(?:[\d.]+ +[\d.]+ +)?(\d+)(?:/\d+)? +(\S+)(?: <cycle \d+>)? \[\d+\]$")
_SELF = re.compile(r"\[\d+\] +[\d.]+ +[\d.]+ +[\d.]+ +(?:[\d+]+)? +(\S+) \[\d+\]$")

USEC_NS, MSEC_NS, SECOND_NS = 1_000, 1_000_000, 1_000_000_000


class Read:
    """What gprof prints: of functions their self time and calls, of pairs of these their calls."""

    def __init__(self, files: GmonFiles, folder: Path) -> None:
        sym, gmon = folder / "sym", folder / "gmon"
        sym.write_bytes(files.sym)
        gmon.write_bytes(files.gmon)
        need("gprof")
        done = run(shlex.split(gprof_line(files, str(gmon), str(sym))))
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        flat, _, graph = done.stdout.partition("Call graph")
        self.flat = flat
        self.unit = next((one for one in ("usec", "msec", "seconds") if one in flat), "")
        self.self_time: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        for line in flat.splitlines():
            if found := _FLAT.match(line):
                self.self_time[found[5]] = float(found[3])
                self.calls[found[5]] = int(found[4] or 0)
        self.arcs: dict[tuple[str, str], int] = {}
        for entry in graph.partition("\n\nIndex by")[0].split("-" * 47):
            callers: list[tuple[str, int]] = []
            for line in entry.splitlines():
                if found := _SELF.match(line):
                    self.arcs.update({(caller, found[1]): calls for caller, calls in callers})
                    break
                if found := _PARENT.match(line):
                    callers.append((found[2], int(found[1])))


def files_of(profile: Profile) -> dict[str, GmonFiles]:
    files, _ = export_files(profile)
    return {one.name: one for one in files}


def test_gprof_shows_times_and_callers_of_a_library(tmp_path: Path) -> None:
    files = files_of(profiles.trees())
    assert set(files) == {"libwork.so", "libmath.so", ""}
    assert files["libwork.so"].binary == profiles.WORK
    read = Read(files["libwork.so"], tmp_path)
    assert read.unit == "usec"
    assert read.self_time == {"parse": 8.5, "fib": 5.0, "step": 4.5}
    assert read.calls == {"parse": 5, "fib": 1, "step": 30}  # gprof leaves calls of itself out
    assert read.arcs == {
        ("PyObject_Call@python3.11", "parse"): 3,
        ("<outside>", "parse"): 2,
        ("parse", "step"): 30,
        ("PyObject_Call@python3.11", "fib"): 1,
        ("fib", "fib"): 8,
    }
    read = Read(files["libmath.so"], tmp_path)
    assert read.self_time == {"mul": 3.0}
    assert read.arcs == {("step@libwork.so", "mul"): 60}


def test_gprof_shows_several_libraries_together(tmp_path: Path) -> None:
    read = Read(files_of(profiles.trees())[""], tmp_path)
    assert read.self_time == {
        "parse@libwork.so": 8.5,
        "fib@libwork.so": 5.0,
        "step@libwork.so": 4.5,
        "mul@libmath.so": 3.0,
    }
    assert read.arcs["step@libwork.so", "mul@libmath.so"] == 60


def test_addresses_are_those_of_the_file() -> None:
    """So that gprof finds its lines, and other readers the library's own symbols."""
    lines = files_of(profiles.trees())["libwork.so"].sym.decode().splitlines()
    assert lines[:3] == [
        "0000000000001139 T parse",
        "0000000000001170 T step",
        "00000000000011a0 T fib",
    ]


def test_counts_have_no_limit_and_need_no_time(tmp_path: Path) -> None:
    read = Read(files_of(profiles.counted())["libwork.so"], tmp_path)
    assert read.arcs["parse", "step"] == 10_000_000_000
    assert read.calls["step"] == 10_000_000_000
    assert "no time accumulated" in read.flat


def test_samples_are_times(tmp_path: Path) -> None:
    files, notes = export_files(profiles.sampled())
    assert "gmon: 1 function of no image: only the file of all images has it" in notes
    read = Read(next(one for one in files if one.name == "libwork.so"), tmp_path)
    assert read.self_time == {"parse": 50_000.0, "0x1234": 70_000.0}


def test_functions_of_scripts_are_in_the_file_of_all(tmp_path: Path) -> None:
    profile = profiles.sampled()
    for sample in profile.samples:
        sample.frames = sample.frames[-1:]
    files = files_of(profile)
    assert set(files) == {"libwork.so", ""}
    read = Read(files[""], tmp_path)
    assert read.self_time == {"main@run.py": 70_000.0, "0x1234@libwork.so": 70_000.0}


def lone(*rows: tuple[str, int, int, int]) -> Profile:
    """Return a profile of functions by name, address, size and self time, each called once."""
    profile = Profile(["x"], mode="time")
    for place, (name, addr, size, self_ns) in enumerate(rows):
        profile.functions.append(ProfFunction("lib.so", name, addr, size))
        profile.sums.append(ProfSums(1, self_ns, self_ns))
        profile.arcs.append(ProfArc(NOBODY, place, 1, self_ns, self_ns))
    return profile


@pytest.mark.parametrize(
    ("most_ns", "unit", "unit_ns"),
    [
        (200_000_000, "usec", USEC_NS),
        (10 * SECOND_NS, "usec", USEC_NS),
        (3_000 * SECOND_NS, "msec", MSEC_NS),
        (3_000_000 * SECOND_NS, "seconds", SECOND_NS),
    ],
)
def test_long_times_stay_exact(tmp_path: Path, most_ns: int, unit: str, unit_ns: int) -> None:
    """gprof adds up in 32 bits: more ticks than that would be lost without a word."""
    (files,) = files_of(
        lone(("long", 0x1000, 64, most_ns), ("short", 0x1040, 64, most_ns // 3))
    ).values()
    assert len(files.gmon) < 400_000
    read = Read(files, tmp_path)
    assert read.unit == unit
    for name, ns in (("long", most_ns), ("short", most_ns // 3)):
        error = abs(read.self_time[name] * unit_ns - ns)
        assert error <= 0.005 * unit_ns + 2e-8 * most_ns + 1, name


def test_neighbours_and_aliases_have_their_own_times(tmp_path: Path) -> None:
    """gprof knows pairs of bytes; a function that shares one is given an address of its own."""
    rows = [
        ("even", 0x1000, 1, 1_000),
        ("odd", 0x1001, 1, 2_000),
        ("far", 0x1003, 40, 3_000),
        ("alias", 0x1003, 40, 4_000),
        ("behind", 0x102B, 5, 5_000),
        ("unknown_size", 0x1035, 0, 6_000),
    ]
    (files,) = files_of(lone(*rows)).values()
    read = Read(files, tmp_path)
    assert read.self_time == {name: ns / USEC_NS for name, _, _, ns in rows}
    assert read.arcs == {("<outside>", name): 1 for name, *_ in rows}


def test_odd_names_stay_apart(tmp_path: Path) -> None:
    rows = [
        ("operator new(unsigned long)", 0x1000, 16, 1_000),
        ("_ZN4work4stepEi", 0x1010, 16, 2_000),
        ("x" * 5_000, 0x1020, 16, 3_000),
        ("café", 0x1030, 16, 4_000),
    ]
    (files,) = files_of(lone(*rows)).values()
    read = Read(files, tmp_path)
    assert read.self_time["operator_new(unsigned_long)"] == 1
    assert read.self_time["work::step(int)"] == 2
    assert read.self_time["x" * 900] == 3
    assert read.self_time["café"] == 4


def test_images_of_one_name_have_two_files() -> None:
    profile = lone(("a", 0x1000, 16, 1), ("b", 0x1000, 16, 2))
    profile.functions[0].path, profile.functions[1].path = "/one/lib.so", "/two/lib.so"
    files = files_of(profile)
    assert {name: one.binary for name, one in files.items() if name} == {
        "lib.so": "/one/lib.so",
        "lib.so.2": "/two/lib.so",
    }


def test_calls_whose_callers_nobody_knows_are_not_lost(tmp_path: Path) -> None:
    profile = lone(("a", 0x1000, 16, 1_000))
    profile.sums[0].calls = 7
    (files,) = files_of(profile).values()
    assert Read(files, tmp_path).arcs == {("<outside>", "a"): 7}


def test_functions_without_names_are_places_or_images(tmp_path: Path) -> None:
    profile = profiles.trees()
    profile.functions[profiles.STEP].symbol = "?"
    profile.functions[profiles.CALL].symbol = ""
    files = files_of(profile)
    read = Read(files["libwork.so"], tmp_path)
    assert read.arcs["<outside:python3.11>", "parse"] == 3
    assert read.self_time["0x1170"] == 4.5
    assert Read(files["libmath.so"], tmp_path).arcs == {("0x1170@libwork.so", "mul"): 60}


def test_gprof_is_given_the_file_of_the_image_if_it_is_here() -> None:
    there = GmonFiles("sh", "/bin/sh", b"", b"")
    assert gprof_line(there, "a b.gmon", "a.sym") == "gprof -b -S a.sym /bin/sh 'a b.gmon'"
    gone = GmonFiles("lib.so", "/nope/lib.so", b"", b"")
    assert gprof_line(gone, "a.gmon", "a.sym").split()[-2] == "/proc/self/exe"
